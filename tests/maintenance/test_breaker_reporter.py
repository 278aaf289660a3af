"""Each change of a breaker is reported once: by a log line and a signal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import Breaker, breaker_close, breaker_open, breaker_set, complete, dequeue, enqueue, retry, signals
from django_pgqueue.lifecycle.breakers import BreakerChange
from django_pgqueue.maintenance import breaker_reporter
from django_pgqueue.maintenance.loop import MaintenanceLoop
from tests.support.sql import sql

NAMES = ("breaker_opened", "breaker_tried", "breaker_closed")


@pytest.fixture
def heard() -> Iterator[list[tuple[str, BreakerChange]]]:
    """The signals that were sent: name and change."""
    found: list[tuple[str, BreakerChange]] = []

    def receiver_of(name: str) -> Any:
        return lambda change, using, **more: found.append((name, change))

    receivers = {name: receiver_of(name) for name in NAMES}
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    yield found
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)


def fail(times: int) -> None:
    for _ in range(times):
        enqueue("mail")
        retry(dequeue(), errors=[{}], delays=[timedelta(hours=1)])


def pass_pause() -> None:
    sql("UPDATE pgqueue_limit SET opened_at = opened_at - interval '1 day', open_until = open_until - interval '1 day'")
    sql("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '1 day'")


def test_each_change_is_reported_once(heard: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "django_pgqueue.maintenance")
    breaker_set("mail", Breaker(failures=3, pause=timedelta(hours=1)))
    fail(3)
    for _ in range(5):
        enqueue("mail")
    assert not dequeue(limit=5)
    for _ in range(2):
        breaker_reporter.run_once("default")
    pass_pause()
    [tried] = dequeue(limit=5)
    breaker_reporter.run_once("default")
    complete(tried)
    breaker_reporter.run_once("default")

    assert [name for name, _ in heard] == list(NAMES)
    opened, trying, closed = (change for _, change in heard)
    assert (opened.handler, opened.channel, trying.message_id) == ("mail", None, tried.id)
    assert opened.until is not None
    assert timedelta(minutes=59) < opened.until - opened.at < timedelta(minutes=61)
    assert closed.at > trying.at
    found = [(record.event, record.levelname) for record in caplog.records]
    assert found == list(zip(NAMES, ("WARNING", "INFO", "INFO"), strict=True))
    first, second, third = (record.message for record in caplog.records)
    assert first.startswith("the breaker of mail is open: its messages wait, and one tries after 20")
    assert second == f"the breaker of mail lets message #{tried.id} try"
    assert third == "the breaker of mail is closed: its messages go on"


def test_a_try_that_fails_is_followed_by_another_try_and_not_by_another_opening(heard: list[Any]) -> None:
    breaker_set("mail", Breaker(failures=1, pause=timedelta(hours=1)))
    fail(1)
    for _ in range(2):
        pass_pause()
        enqueue("mail")
        retry(dequeue(), errors=[{}], delays=[timedelta(hours=1)])

    breaker_reporter.run_once("default")

    assert [change.change for _, change in heard] == ["opened", "tried", "tried"]


def test_a_breaker_of_a_channel_that_is_opened_and_closed_by_hand(heard: list[Any]) -> None:
    breaker_set("mail", Breaker(per="channel"))
    breaker_open("mail", channel="default")
    breaker_open("mail", channel="default")
    breaker_close("mail", channel="default")

    MaintenanceLoop("default").run_due()

    assert [(change.change, change.name()) for _, change in heard] == [
        ("opened", "mail of default/default"),
        ("closed", "mail of default/default"),
    ]


def test_a_receiver_that_raises_hides_no_other_change(heard: list[Any]) -> None:
    def receiver(**arguments: Any) -> None:
        raise ValueError

    breaker_set("mail", Breaker())
    breaker_open("mail")
    breaker_close("mail")
    signals.breaker_opened.connect(receiver)
    try:
        breaker_reporter.run_once("default")
    finally:
        signals.breaker_opened.disconnect(receiver)

    assert [change.change for _, change in heard] == ["opened", "closed"]
