"""A message whose handler this worker does not have waits for one that has it: a deployment may be in progress."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue import channel_set
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.worker import executor, numbers
from django_pgqueue.worker.worker import QueueWorker
from tests.support.waiting import eventually
from tests.worker.conftest import script, scripts, where

Drain = Callable[..., dict[str, int]]


@pytest.fixture(autouse=True)
def _nothing_logged() -> Iterator[None]:
    executor._logged_unknown.clear()
    yield
    executor._logged_unknown.clear()


def test_it_waits_and_those_behind_it_are_served(start: Callable[..., QueueWorker]) -> None:
    channel_set(channel="one", max_concurrency=1)
    waiting = script(handler="nobody", max_attempts=1, channel="one", priority=1)
    behind = [script(channel="one") for _ in range(5)]
    start(maintenance=True)
    eventually(lambda: {where(message) for message in behind} == {"completed"})
    message = Message.objects.get(id=waiting)
    assert message.attempts <= 1, "one delivery may be under way"
    assert len(message.errors) == 1
    assert not DeadLetter.objects.exists()


@pytest.mark.parametrize("options", [{}, {"batch": 3}, {"asynchronous": True}])
def test_a_worker_that_knows_the_handler_gets_it(
    start: Callable[..., QueueWorker], register: Callable[..., None], options: dict[str, Any]
) -> None:
    def known(delivery: Any) -> None: ...
    async def also_known(delivery: Any) -> None: ...

    message = script(handler="late", max_attempts=1)
    start(maintenance=True)
    eventually(lambda: Message.objects.get(id=message).errors)
    if options.pop("asynchronous", False):
        register("late", also_known)
    else:
        register("late", known, **options)
    eventually(lambda: where(message) == "completed")
    assert ArchivedMessage.objects.get(id=message).attempts == 1


def test_it_is_rejected_when_the_grace_has_passed(start: Callable[..., QueueWorker]) -> None:
    message = script(handler="nobody", max_attempts=1)
    with override_settings(DJANGO_PGQUEUE={"UNKNOWN_HANDLER_GRACE": timedelta(seconds=1)}):
        start(maintenance=True)
        eventually(lambda: where(message) == "dead: unknown_handler")
    letter = DeadLetter.objects.get(id=message)
    assert [error["type"] for error in letter.errors] == ["django_pgqueue.exceptions.UnknownHandler"]
    assert letter.dead_at - letter.created_at > timedelta(seconds=1)


def test_the_log_says_it_once_a_minute_for_each_name(drain: Drain, caplog: pytest.LogCaptureFixture) -> None:
    scripts(5, handler="nobody")
    script(handler="no one")
    assert drain() == {"deferred": 6}
    records = [record for record in caplog.records if getattr(record, "event", "") == "unknown_handler"]
    # Threads log them, in any order.
    said = sorted(records, key=lambda record: record.args[0])
    assert [record.args[0] for record in said] == ["no one", "nobody"]
    assert {record.levelname for record in said} == {"WARNING"}
    assert "wait up to 0:10:00 for a worker that has it" in said[1].getMessage()
    assert re.search(r"such as nobody #\d+ on default/default, wait", said[1].getMessage())


def test_names_that_clients_make_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch, drain: Drain) -> None:
    monkeypatch.setattr(numbers, "MOST_LOGGED_NAMES", 3)
    for number in range(10):
        script(handler=f"nobody {number}")
    drain()
    assert len(executor._logged_unknown) <= 3
