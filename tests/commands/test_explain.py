from __future__ import annotations

import json

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_pause, channel_set, dequeue, enqueue
from django_pgqueue.lifecycle.logs import keep_logs
from tests.support.cases import cases
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="acme", queue="mails")


def run(*arguments: object) -> str:
    return pgqueue("explain", *arguments)


def test_a_message_is_explained_line_by_line() -> None:
    message = enqueue("h", channel="acme", queue="mails").id
    channel_pause(channel="acme", queue="mails", reason="down\n\x1b[31mERROR all is well")
    lines = run("message", message).splitlines()
    assert [line.split()[0] for line in lines] == ["channel_paused", "no_worker", "in_channel"]
    assert lines[0].endswith(r"Reason: down\n\x1b[31mERROR all is well")


def test_a_channel_is_explained_for_programs() -> None:
    reasons = json.loads(run("channel", "acme", "--queue", "mails", "--json"))["reasons"]
    assert [reason["code"] for reason in reasons] == ["no_worker", "empty"]
    assert reasons[1]["facts"] == {"leased": 0, "dequeue_at": None}
    assert reasons[1]["sentence"] == "Nothing of it is ready. Leased messages: 0."


def test_a_channel_is_found_in_whatever_queue_it_is() -> None:
    enqueue("h", channel="acme", queue="mails")
    assert run("channel", "acme").startswith("no_worker")
    channel_set(channel="acme", queue="bulk")
    channel_set(channel="other", queue="bulk")
    printed = run("channel", "acme")
    assert [line.split()[0] for line in printed.splitlines()] == [
        "bulk/acme:", "no_worker", "empty", "mails/acme:", "no_worker", "in_channel",
    ]  # fmt: skip
    reasons = json.loads(run("channel", "acme", "--json"))["reasons"]
    assert {reason["queue"] for reason in reasons} == {"bulk", "mails"}


def test_what_a_message_has_logged_is_below_and_cannot_color_the_terminal() -> None:
    enqueue("h", channel="acme", queue="mails")
    [delivery] = dequeue(queue="mails")
    keep_logs([delivery], ["first\nERROR \x1b[31msecond"])
    lines = run("message", delivery.id).splitlines()
    assert lines[-3].startswith("log of attempt 1, 20")
    assert lines[-2:] == ["  first", r"  ERROR \x1b[31msecond"]
    [log] = json.loads(run("message", delivery.id, "--json"))["logs"]
    assert (log["attempt"], log["log"]) == (1, "first\nERROR \x1b[31msecond")


def test_a_message_that_is_unknown_is_an_answer() -> None:
    assert run("message", "123456789").startswith("unknown ")


@cases(
    ("arguments", "problem"),
    [
        (["channel", "nobody"], 'channel "nobody" does not exist'),
        (["message", str(2**70)], "an id is [0-9]+: it is not between"),
        (["message", "acme"], "invalid int value"),
        ([], "the following arguments are required: {message,channel}"),
        (["message", "1", "--database", "elsewhere"], "There is no database 'elsewhere'"),
    ],
)
def test_invalid_questions_are_refused_in_words(arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*arguments)
