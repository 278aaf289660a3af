"""Handlers that do what no handler should: it costs their own message, and is said. The worker and the others go on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, marks, script, scripts, where

Spawn = Callable[..., Process]
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def stop(worker: Process) -> None:
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic", "scripted.async"])
def test_a_handler_that_forks_makes_no_second_worker(spawn: Spawn, handler: str) -> None:
    forked = script(["fork"], ["effect"] if handler == "scripted.async" else ["sleep", 0], handler=handler)
    worker = spawn("--concurrency", "1")
    eventually(lambda: where(forked) == "completed")
    eventually(lambda: "a handler forked" in worker.log)
    others = scripts(20, ["effect"], handler=handler)
    eventually(lambda: ArchivedMessage.objects.filter(id__in=others).count() == 20)
    done = [message for message, _ in effects()]
    assert sorted(message for message in done if message != forked) == others
    assert done.count(forked) == (handler == "scripted.async"), "once: the child process did not go on"
    assert ArchivedMessage.objects.get(id=forked).attempts == 1
    stop(worker)
    assert worker.log.count("a handler forked") == 1


@pytest.mark.parametrize(
    "steps", [[["sql", "BEGIN"]], [["enter"]], [["no autocommit"]], [["sql", "BEGIN"], ["fail"]]], ids=str
)
@pytest.mark.parametrize("handler", ["scripted", "scripted.async"])
def test_a_transaction_that_is_left_open_does_not_swallow_what_comes_next(
    spawn: Spawn, handler: str, steps: list[Any]
) -> None:
    bad = script(*steps, ["effect"], handler=handler, max_attempts=1)
    worker = spawn("--concurrency", "1", "--async-concurrency", "1")
    eventually(lambda: not where(bad).startswith("live"))
    which = "an async handler" if handler == "scripted.async" else f"the handler of {handler} #{bad} on default/default"
    eventually(lambda: f"{which} left a transaction open" in worker.log)
    if handler != "scripted.async":
        assert where(bad) == "dead: failed"
        error = DeadLetter.objects.get(id=bad).errors[0]
        assert ["fail"] in steps or "what it wrote or locked there is rolled back" in error["message"]
    good = scripts(5, ["effect"], handler=handler)
    eventually(lambda: ArchivedMessage.objects.filter(id__in=good).count() == 5)
    assert sorted(message for message, _ in effects()) == good
    stop(worker)


@pytest.mark.parametrize(
    "steps", [[["sql", "SELECT 1"]], [["effect"], ["sql", "COMMIT"], ["sql", "SELECT 1"]]], ids=str
)
def test_a_handler_that_lost_no_write_is_done(spawn: Spawn, steps: list[Any]) -> None:
    reader = script(["no autocommit"], *steps, max_attempts=1)
    worker = spawn("--drain")
    assert worker.wait() == 0
    assert where(reader) == "completed"
    assert "left a transaction open" in worker.log
    assert len(effects()) == (["effect"] in steps)


def test_an_atomic_handler_that_loses_writes_to_another_database_fails(spawn: Spawn, pg_url: str) -> None:
    bad = script(
        ["effect"], ["no autocommit", "direct"], ["write to", "direct"], handler="scripted.atomic", max_attempts=1
    )
    good = script(["effect"], ["write to", "direct"], handler="scripted.atomic", max_attempts=1)
    assert spawn("--drain", LISTEN_URL=pg_url).wait() == 0
    assert (where(bad), where(good)) == ("dead: failed", "completed")
    assert "on 'direct'" in DeadLetter.objects.get(id=bad).errors[0]["message"]
    assert effects() == [(good, 1)]


def test_an_atomic_handler_that_leaves_a_savepoint_open_fails(spawn: Spawn) -> None:
    bad = script(["enter"], ["effect"], handler="scripted.atomic", max_attempts=1)
    good = script(["effect"], handler="scripted.atomic")
    worker = spawn("--concurrency", "1")
    eventually(lambda: where(good) == "completed")
    eventually(lambda: where(bad) == "dead: failed")
    assert "did not end it" in DeadLetter.objects.get(id=bad).errors[0]["message"]
    assert effects() == [(good, 1)]
    stop(worker)


def test_signals_stay_with_the_worker(spawn: Spawn) -> None:
    message = script(["catch signals"], max_attempts=1)
    worker = spawn()
    eventually(lambda: where(message) == "dead: failed")
    assert "main thread" in DeadLetter.objects.get(id=message).errors[0]["message"]
    stop(worker)


def test_leaked_sessions_end_with_the_worker(spawn: Spawn) -> None:
    leaky = script(["leak"])
    good = scripts(5, ["effect"])
    worker = spawn("--concurrency", "2")
    eventually(lambda: ArchivedMessage.objects.filter(id__in=[leaky, *good]).count() == 6)
    stop(worker)
    eventually(lambda: sql(SESSIONS)[0][0] == 0)


def test_a_message_that_python_cannot_read_stops_no_worker(spawn: Spawn) -> None:
    """SQL takes JSON deeper than the 9,900 levels that Python reads; an old row may have a time before the year 1."""
    sneak = "INSERT INTO pgqueue_message (channel_id, handler, payload) SELECT id, 'scripted', %s FROM pgqueue_channel"
    for payload in ("[" * 10_000 + "]" * 10_000, "[]", "1" * 5_000):
        sql(sneak, payload)
    sql("UPDATE pgqueue_message SET created_at = '4000-01-01 BC' WHERE payload = '[]'")
    good = scripts(3, ["effect"])
    worker = spawn("--drain")
    assert worker.wait() == 0
    assert sorted(message for message, _ in effects()) == good
    assert sql("SELECT reason, count(*) FROM pgqueue_dead_letter GROUP BY reason") == [("unreadable", 3)]
    assert worker.log.count("on default/default cannot be read: ") == 3


def test_a_chain_of_deferrals_resumes_where_it_was_killed(spawn: Spawn) -> None:
    """Durable piecewise work: each piece and the state after it commit together."""
    message = script(["chain", 6, 3], handler="scripted.atomic")
    first = spawn("--lease", "1")
    assert first.wait() == -signal.SIGKILL
    assert [page for _, page in effects()] == [0, 1, 2]
    worker = spawn("--lease", "1")
    eventually(lambda: where(message) == "completed")
    assert [page for _, page in effects()] == [0, 1, 2, 3, 4, 5]
    assert marks("killed") == 1
    assert ArchivedMessage.objects.get(id=message).attempts == 2, "deferrals are no failures, the kill was one"
    stop(worker)
