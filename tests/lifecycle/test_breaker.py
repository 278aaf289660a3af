"""The breaker of a handler, as Python declares and edits it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_pgqueue import (
    Breaker,
    Delivery,
    breaker_close,
    breaker_open,
    breaker_set,
    channel_set,
    dequeue,
    enqueue,
    explain_message,
    handler,
    limit_pause,
    limit_set,
    retry,
)
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.maintenance.declared_breakers import sync_breakers
from django_pgqueue.models import SharedLimit
from tests.support.cases import cases
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db
MAIL = Breaker(failures=2, within=timedelta(minutes=1), pause=timedelta(hours=1))


def fail(times: int, channel: str = "default") -> None:
    for _ in range(times):
        enqueue("mail", channel=channel, backoff=timedelta(hours=1))
        retry(dequeue(), errors=[{}])


def test_failures_in_a_row_open_it_and_a_message_says_why_it_waits() -> None:
    assert breaker_set("mail", MAIL) == "created"
    fail(2)
    waiting = enqueue("mail").id
    assert dequeue() == []

    lines = [str(line) for line in explain_message(waiting)]

    assert any("The breaker of handler mail is open until" in line for line in lines)
    assert any("after 2 failures in a row within 00:01:00" in line for line in lines)


def test_a_message_says_that_each_channel_has_a_breaker_of_its_own() -> None:
    breaker_set("mail", Breaker(failures=1, within=timedelta(minutes=1), pause=timedelta(hours=1), per="channel"))
    fail(1)
    waiting = enqueue("mail").id
    assert dequeue() == []

    [reason] = [reason for reason in explain_message(waiting) if reason.code == "breaker_open"]

    assert reason.sentence.endswith("within 00:01:00. It is one for each channel.")


def test_it_is_opened_and_closed_by_hand() -> None:
    breaker_set("mail", MAIL)
    enqueue("mail")
    breaker_open("mail", until=datetime.now(UTC) + timedelta(hours=2))
    assert dequeue() == []
    breaker_close("mail")
    assert len(dequeue()) == 1
    fail(1)
    breaker_close("mail")
    fail(1)
    enqueue("mail")
    assert len(dequeue()) == 1, "the count of failures begins anew"


def test_one_of_a_channel_is_opened_and_closed_by_hand() -> None:
    channel_set(channel="a")
    breaker_set("mail", Breaker(per="channel"))
    for channel in ("a", "default"):
        enqueue("mail", channel=channel)
    breaker_open("mail", channel="a")
    assert [delivery.channel for delivery in dequeue(limit=10)] == ["default"]
    breaker_close("mail", channel="a")
    assert [delivery.channel for delivery in dequeue(limit=10)] == ["a"]


def test_invalid_arguments_are_refused() -> None:
    with refused(InvalidMessage, "has no breaker"):
        breaker_open("mail")
    breaker_set("mail", MAIL)
    with refused(InvalidMessage, "one for all channels"):
        breaker_close("mail", channel="default")
    with refused(InvalidMessage, "until"):
        breaker_open("mail", until=datetime(2020, 1, 1, tzinfo=UTC))
    breaker_set("mail", Breaker(per="channel"))
    with refused(InvalidMessage, "one for each channel"):
        breaker_close("mail")
    with refused(InvalidMessage, "has no channel"):
        breaker_close("mail", channel="nowhere")
    with refused(InvalidMessage, "not a Breaker but int"):
        breaker_set("mail", 5)  # type: ignore[arg-type]
    with refused(InvalidMessage, "1 to 160 characters"):
        breaker_set("m" * 161, MAIL)


@cases(
    ("values", "text"),
    [
        ({"failures": 0}, "failures is 0"),
        ({"failures": True}, "failures is True"),
        ({"within": 60}, "within is not a timedelta but int"),
        ({"within": timedelta(0)}, "within is 0:00:00"),
        ({"pause": timedelta(milliseconds=5)}, "pause is"),
        ({"per": "queue"}, "per is 'queue'"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(values: dict[str, Any], text: str) -> None:
    with refused(InvalidMessage, text):
        Breaker(**values)


def test_a_breaker_is_no_limit_that_is_edited_paused_or_named() -> None:
    breaker_set("mail", MAIL)
    name = SharedLimit.objects.get().name
    with refused(InvalidMessage, "it is a breaker"):
        limit_set(name, max_concurrency=5)
    with refused(InvalidMessage, "is a breaker, and cannot be paused"):
        limit_pause(name)
    with refused(InvalidMessage, "there is no limit"):
        enqueue("h", limits=[name])


def test_a_handler_declares_it_and_the_database_follows(handlers_restored: None) -> None:
    @handler("mail.send", breaker=MAIL)
    def send(delivery: Delivery) -> None: ...

    assert sync_breakers() == 1
    assert sync_breakers() == 0
    row = SharedLimit.objects.get()
    found = (row.breaker_handler, row.breaker_failures, row.breaker_within, row.breaker_pause, row.per)
    assert found == ("mail.send", 2, timedelta(minutes=1), timedelta(hours=1), "handler")


def test_a_handler_that_declares_none_any_more_loses_it_and_those_of_others_stay(handlers_restored: None) -> None:
    breaker_set("elsewhere", MAIL)
    breaker_set("mail.send", MAIL)

    @handler("mail.send")
    def send(delivery: Delivery) -> None: ...

    assert sync_breakers() == 1
    assert list(SharedLimit.objects.values_list("breaker_handler", flat=True)) == ["elsewhere"]


def test_a_change_of_its_numbers_leaves_it_open() -> None:
    channel_set(channel="a")
    breaker_set("mail", Breaker(failures=2, pause=timedelta(hours=1), per="channel"))
    fail(2, "a")
    enqueue("mail", channel="a")
    assert dequeue() == []

    assert breaker_set("mail", Breaker(failures=9, pause=timedelta(hours=1), per="channel")) == "changed"

    assert dequeue() == []
    assert set(SharedLimit.objects.values_list("breaker_failures", flat=True)) == {9}


def test_an_invalid_breaker_is_refused_at_import() -> None:
    with pytest.raises(ValueError, match="it takes a Breaker"):
        handler("mail.send", breaker=5)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="160 characters at most"):
        handler("m" * 161, breaker=MAIL)
