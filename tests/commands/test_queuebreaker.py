from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import (
    Breaker,
    NewMessage,
    breaker_open,
    breaker_set,
    channel_set,
    dequeue,
    enqueue,
    enqueue_many,
)
from django_pgqueue.doctor import examine
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default")


def run(*arguments: object) -> str:
    return output_of("queuebreaker", *arguments).strip()


def test_it_lists_opens_and_closes_a_breaker() -> None:
    assert run("list") == "No handler has a breaker."
    breaker_set("mail", Breaker(pause=timedelta(hours=1)))
    assert run("list") == "mail: closed, 0 waiting, opened 0 time(s)"
    enqueue("mail")

    assert run("open", "mail") == "The breaker of mail is open."
    assert dequeue() == []
    assert run("list").startswith("mail: open until ")
    assert run("list").endswith(" UTC, 1 waiting, opened 1 time(s)")
    assert run("close", "mail") == "The breaker of mail is closed."

    assert len(dequeue()) == 1


def test_a_number_that_is_not_counted_to_the_end_says_so() -> None:
    breaker_set("mail", Breaker(pause=timedelta(hours=1)))
    breaker_open("mail")
    enqueue_many(NewMessage(handler="mail") for _ in range(1_010))
    for _ in range(50):
        # Each sets some of them aside.
        assert dequeue(limit=500) == []
    assert " 1,000+ waiting, " in run("list")
    [finding] = examine(only=["breaker_open"]).findings
    assert "At least 1,000 message(s) wait for them." in finding.problem


def test_one_of_a_channel_is_listed_while_it_is_open() -> None:
    breaker_set("mail", Breaker(per="channel"))
    run("open", "mail", "--channel", "default", "--for", "3600")

    [of_channel, of_handler] = json.loads(run("list", "--format", "json"))["breakers"]

    assert (of_channel["channel"], of_channel["state"]) == ("default", "open")
    assert (of_handler["channel"], of_handler["openings"]) == (None, 1)
    assert run("list").splitlines()[1] == "mail: one for each channel, 0 waiting, opened 1 time(s)"
    run("close", "mail", "--channel", "default")
    assert run("list") == "mail: one for each channel, 0 waiting, opened 1 time(s)"


def test_a_dry_run_changes_nothing() -> None:
    breaker_set("mail", Breaker())
    assert run("open", "mail", "--dry-run") == "The breaker of mail would be open."
    assert run("close", "mail", "--dry-run") == "The breaker of mail would be closed."
    assert "closed" in run("list")
    with pytest.raises(CommandError, match="has no breaker"):
        run("close", "other", "--dry-run")


def test_settings_without_sense_are_refused() -> None:
    for arguments, text in (
        (("open",), "Name the handler"),
        (("close", "mail", "--for", "5"), "--for is for open"),
        (("close", "mail"), "has no breaker"),
    ):
        with pytest.raises(CommandError, match=text):
            run(*arguments)
