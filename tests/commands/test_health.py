from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import (
    Breaker,
    breaker_open,
    breaker_set,
    channel_set,
    dead_letter,
    dequeue,
    enqueue,
    limit_pause,
    limit_set,
    queue_pause,
    retry,
)
from django_pgqueue.models import Worker
from tests.support.cases import cases
from tests.support.commands import status_and_output_of
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[int, str]:
    return status_and_output_of("pgqueue", "health", *arguments, skip_checks=True)


@pytest.fixture(autouse=True)
def _queues() -> None:
    """Three ready messages in one queue, the oldest for ten minutes; one in another."""
    channel_set(channel="default")
    channel_set(channel="acme", queue="mails")
    enqueue("h")
    pass_time(minutes=10)
    enqueue("h")
    enqueue("h")
    enqueue("h", queue="mails", channel="acme")


def test_without_limits_nothing_is_checked_and_the_line_says_so() -> None:
    """A monitor without a limit would be green for ever."""
    status, printed = run()
    assert status == 0
    assert printed.startswith("UNCHECKED: 4 ready in 2 queue(s), the oldest for 60")
    assert printed.endswith(", no worker for default, mails. Give a limit, such as --max-age 5m.\n")
    assert run("--max-backlog", "9")[1].startswith("OK: 4 ready in 2 queue(s), the oldest for 60")


def test_the_line_names_the_queues_that_are_paused_or_have_no_worker() -> None:
    assert run("--max-backlog", "9")[1].endswith(", no worker for default, mails\n")
    queue_pause("mails")
    Worker.objects.create(name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="0")
    assert run("--max-backlog", "9")[1].endswith(", paused: mails, no worker for mails\n")


def test_a_message_that_waits_too_long_is_reported_with_the_cause() -> None:
    def problem() -> str:
        return run("--max-age", "60", "--queue", "default")[1].partition(" s")[2].strip()

    assert problem() == ", no worker serves the queue"
    Worker.objects.create(name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="0")
    assert problem() == ""
    queue_pause("default")
    assert problem() == ", the queue is paused"


@cases(
    ("arguments", "status", "problem"),
    [
        (["--max-age", "3600"], 0, "OK"),
        (["--max-age", "60"], 2, "CRITICAL: default: a message of channel default waits for 60"),
        (["--max-age", "60", "--queue", "mails"], 0, "OK: 1 ready"),
        (["--max-backlog", "3"], 0, "OK"),
        (["--max-backlog", "2"], 2, "CRITICAL: default: 3 ready\n"),
        (["--max-backlog", "0"], 2, "CRITICAL: default: 3 ready; mails: 1 ready\n"),
        (["--max-backlog", "0", "--queue", "mails", "--queue", "default"], 2, "CRITICAL: default"),
    ],
)
def test_limits(arguments: list[str], status: int, problem: str) -> None:
    found, printed = run(*arguments)
    assert (found, printed[: len(problem)]) == (status, problem)


def test_dead_letters() -> None:
    dead_letter(dequeue(limit=2), reason="refused")
    assert run("--max-dead", "2")[0] == 0
    assert run("--max-dead", "1") == (2, "CRITICAL: default: 2 dead\n")


def test_messages_that_wait_for_a_shared_limit() -> None:
    limit_set("stripe", max_concurrency=1)
    for _ in range(3):
        enqueue("h", limits=["stripe"])
    limit_pause("stripe", reason="down")
    pass_time(minutes=10)
    assert run("--max-backlog", "9")[1].endswith(", 3 waiting for a limit\n")
    assert run("--max-limit-wait", "3600")[0] == 0
    status, printed = run("--max-limit-wait", "60")
    assert status == 2
    assert printed.startswith("CRITICAL: limit stripe: a message waits for 60")
    assert printed.endswith(" s, it is paused\n")
    [limit] = json.loads(run("--json")[1])["limits"]
    assert (limit["name"], limit["waiting"], limit["why"]) == ("stripe", 3, "paused")
    assert 600 <= limit["oldest_seconds"] < 660


def test_a_message_that_holds_an_ordered_channel() -> None:
    channel_set(channel="acme", queue="mails", ordered=True)
    [held] = dequeue(queue="mails")
    retry(held, errors=[{}], delays=[timedelta(hours=1)])
    assert run("--max-held", "60")[0] == 0
    pass_time(minutes=10)
    status, printed = run("--max-held", "60")
    assert status == 2
    assert printed.startswith(f"CRITICAL: mails: message {held.id} holds channel acme for 60")
    assert printed.endswith(" s, attempts 1 of 5\n")
    assert run("--max-held", "60", "--queue", "default")[0] == 0
    [row] = json.loads(run("--json")[1])["held"]
    assert (row["message_id"], row["behind"]) == (held.id, False)


def test_breakers_that_are_open() -> None:
    breaker_set("h", Breaker())
    breaker_set("mail", Breaker(per="channel"))
    assert run("--max-open-breakers", "0")[0] == 0
    breaker_open("h")
    breaker_open("mail", queue="mails", channel="acme")
    assert run("--max-backlog", "9")[1].endswith(", 2 breaker(s) open\n")
    assert run("--max-open-breakers", "2")[0] == 0
    assert run("--max-open-breakers", "1") == (2, "CRITICAL: 2 breaker(s) are open: h, mail of mails/acme\n")
    assert run("--max-open-breakers", "0", "--queue", "default") == (2, "CRITICAL: 1 breaker(s) are open: h\n")
    [of_handler, _] = json.loads(run("--json")[1])["open_breakers"]
    assert (of_handler["handler"], of_handler["state"]) == ("h", "open")


def test_for_programs() -> None:
    status, printed = run("--max-backlog", "2", "--queue", "default", "--json")
    document = json.loads(printed)
    [queue] = document.pop("queues")
    assert status == 2
    assert document == {"version": 1, "status": 2, "problems": ["default: 3 ready"], "limits": [], "held": [],
        "open_breakers": []}  # fmt: skip
    assert (queue["ready"], queue["complete"], queue["oldest_channel"]) == (3, True, "default")
    assert 600 <= queue["oldest_seconds"] < 660


def test_a_queue_that_does_not_exist_is_no_success() -> None:
    with pytest.raises(CommandError, match="There is no queue nails") as raised:
        run("--queue", "nails")
    assert raised.value.returncode == 3
