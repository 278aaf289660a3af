"""A handler that runs too long is interrupted, and one that does not care is given up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import Complete, Delivery, enqueue
from django_pgqueue.exceptions import HandlerTimeout
from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.sql import sql
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import effects, mark, script, scripts, where
from tests.worker.scripted.handlers import sql as sql_in_handler

Drain = Callable[..., dict[str, int]]
Register = Callable[..., None]
Start = Callable[..., Any]
SHORT = timedelta(seconds=0.1)


def spin(delivery: Delivery) -> None:
    while True:
        pass


async def hang(delivery: Delivery) -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize("function", [spin, hang])
def test_a_handler_that_runs_too_long_is_timed_out(drain: Drain, register: Register, function: Any) -> None:
    register("long", function, timeout=SHORT)
    message = script(handler="long", max_attempts=1)
    assert drain() == {"dead_lettered": 1}
    assert where(message) == "dead: timed_out"
    [error] = DeadLetter.objects.get(id=message).errors
    assert error["type"] == "django_pgqueue.exceptions.HandlerTimeout"
    assert error["message"] == "The handler ran longer than its timeout of 0:00:00.100000."
    assert f", in {function.__name__}" in error["traceback"]


@pytest.mark.parametrize("function", [spin, hang])
def test_the_setting_is_for_handlers_without_a_timeout(drain: Drain, register: Register, function: Any) -> None:
    register("long", function)
    message = script(handler="long", max_attempts=1)
    drain(timeout=SHORT)
    assert where(message) == "dead: timed_out"


def test_a_message_that_timed_out_is_tried_again(start: Start, register: Register) -> None:
    def first(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            spin(delivery)

    register("first", first, timeout=SHORT)
    message = script(handler="first")
    start(maintenance=True)
    eventually(lambda: ArchivedMessage.objects.filter(id=message).exists())
    assert ArchivedMessage.objects.get(id=message).attempts == 2


@pytest.mark.parametrize("asynchronous", [False, True])
def test_of_a_batch_only_the_message_that_hangs_is_timed_out(
    drain: Drain, register: Register, asynchronous: bool
) -> None:
    calls: list[list[int]] = []

    def note(deliveries: list[Delivery]) -> bool:
        calls.append([delivery.id for delivery in deliveries])
        return any(delivery.payload == "hang" for delivery in deliveries)

    def thread(deliveries: list[Delivery]) -> None:
        if note(deliveries):
            spin(deliveries[0])

    async def task(deliveries: list[Delivery]) -> None:
        if note(deliveries):
            await hang(deliveries[0])

    register("batch", task if asynchronous else thread, batch=10, timeout=SHORT)
    # After some calls of a handler with a batch, the worker leases whole batches.
    good = [enqueue("batch", "be quick").id for _ in range(12)]
    bad = enqueue("batch", "hang", max_attempts=1).id
    good += [enqueue("batch", "be quick").id for _ in range(4)]
    assert drain(concurrency=1, grace=timedelta(seconds=60)) == {"completed": 16, "dead_lettered": 1}
    assert where(bad) == "dead: timed_out"
    assert {where(message) for message in good} == {"completed"}
    together = next(call for call in calls if bad in call)
    assert len(together) > 1
    after = calls[calls.index(together) + 1 :]
    assert [call for call in after if set(call) & set(together)] == [[message] for message in together]


def test_a_handler_may_clean_up_and_answer(drain: Drain, register: Register) -> None:
    def thread(delivery: Delivery) -> Any:
        try:
            spin(delivery)
        except HandlerTimeout:
            return Complete("cleaned up")

    async def task(delivery: Delivery) -> Any:
        try:
            await hang(delivery)
        except asyncio.CancelledError:
            return Complete("cleaned up")

    register("thread", thread, timeout=SHORT)
    register("task", task, timeout=SHORT)
    script(handler="thread")
    script(handler="task")
    assert drain() == {"completed": 2}
    assert list(ArchivedMessage.objects.values_list("result", flat=True)) == ["cleaned up"] * 2


def test_the_rows_of_an_atomic_handler_that_times_out_are_rolled_back(drain: Drain, register: Register) -> None:
    def write(delivery: Delivery) -> None:
        sql_in_handler("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, 1)", delivery.id)
        spin(delivery)

    register("write", write, timeout=SHORT, atomic=True)
    message = script(handler="write", max_attempts=1)
    assert drain() == {"dead_lettered": 1}
    assert where(message) == "dead: timed_out"
    assert effects() == []


@pytest.mark.parametrize("atomic", [False, True])
def test_a_query_is_cancelled_at_the_timeout(
    drain: Drain, register: Register, caplog: pytest.LogCaptureFixture, atomic: bool
) -> None:
    def query(delivery: Delivery) -> None:
        sql_in_handler("SELECT pg_sleep(60)")

    register("query", query, timeout=SHORT, atomic=atomic)
    message = script(handler="query", max_attempts=1)
    good = script(["effect"])
    assert drain(concurrency=1) == {"completed": 1, "dead_lettered": 1}
    assert (where(message), where(good)) == ("dead: timed_out", "completed")
    assert ", in query" in DeadLetter.objects.get(id=message).errors[0]["traceback"]
    assert "thread_given_up" not in [getattr(record, "event", "") for record in caplog.records]


def test_the_slot_goes_on_with_the_next_message(drain: Drain, register: Register) -> None:
    register("spin", spin, timeout=SHORT)
    bad = scripts(3, handler="spin", max_attempts=1)
    good = scripts(20, ["effect"])
    assert drain(concurrency=1) == {"completed": 20, "dead_lettered": 3}
    assert {where(message) for message in bad} == {"dead: timed_out"}
    assert sorted(message for message, _ in effects()) == good


@pytest.mark.parametrize("asynchronous", [False, True], ids=["thread", "loop"])
def test_a_handler_that_cannot_be_interrupted_is_given_up(
    start: Start, register: Register, caplog: pytest.LogCaptureFixture, asynchronous: bool
) -> None:
    """Its message is settled, the others go on, and what it answers in the end does not count."""
    go = threading.Event()
    ended = threading.Event()

    def stubborn(delivery: Delivery) -> None:
        while not go.is_set():
            with suppress(BaseException):
                time.sleep(0.01)
        ended.set()

    async def stubborn_task(delivery: Delivery) -> None:
        while not go.is_set():
            with suppress(BaseException):
                await asyncio.sleep(0.01)
        ended.set()

    register("stubborn", stubborn_task if asynchronous else stubborn, timeout=SHORT)
    message = script(handler="stubborn", max_attempts=1)
    worker = start(concurrency=1, async_concurrency=1, grace=SHORT)
    eventually(lambda: DeadLetter.objects.exists())
    assert where(message) == "dead: timed_out"
    assert "did not end when it was interrupted" in DeadLetter.objects.get(id=message).errors[0]["message"]
    script(["effect"])
    eventually(effects)
    assert "worker_unfit" in [getattr(record, "event", "") for record in caplog.records]
    go.set()
    assert ended.wait(PATIENCE_SECONDS)
    worker.stop()
    worker.join()
    assert where(message) == "dead: timed_out"
    assert worker.ledger.totals()["dead_lettered"] == 1
    assert worker.ledger.totals()["lease_lost"] == 0


@pytest.mark.parametrize("options", [{}, {"atomic": True}, {"asynchronous": True}], ids=["thread", "atomic", "loop"])
def test_a_batch_that_was_given_up_does_not_run_on_one_by_one(
    start: Start, register: Register, options: dict[str, Any]
) -> None:
    """Its messages are settled, and other workers may have them."""
    go, ended = threading.Event(), threading.Event()
    calls: list[list[int]] = []
    threads: list[threading.Thread] = []

    def begin(deliveries: list[Delivery]) -> None:
        calls.append([delivery.id for delivery in deliveries])
        threads.append(threading.current_thread())

    def stubborn(deliveries: list[Delivery]) -> None:
        begin(deliveries)
        while not go.is_set():
            with suppress(BaseException):
                time.sleep(0.01)
        ended.set()
        raise ValueError("too late")

    async def stubborn_task(deliveries: list[Delivery]) -> None:
        begin(deliveries)
        while not go.is_set():
            with suppress(BaseException):
                await asyncio.sleep(0.01)
        ended.set()
        raise ValueError("too late")

    function = stubborn_task if options.pop("asynchronous", False) else stubborn
    register("stubborn", function, batch=3, gather=timedelta(seconds=10), timeout=SHORT, max_attempts=1, **options)
    worker = start(concurrency=1, grace=SHORT)
    messages = [enqueue("stubborn").id for _ in range(3)]
    eventually(lambda: DeadLetter.objects.count() == 3)
    go.set()
    assert ended.wait(PATIENCE_SECONDS)
    worker.stop()
    worker.join()
    threads[0].join(PATIENCE_SECONDS)
    assert calls == [messages]
    assert worker.ledger.totals()["lease_lost"] == 0


def test_a_worker_that_stops_ends_cleanly_behind_a_handler_that_was_given_up(start: Start, register: Register) -> None:
    begun, go = threading.Event(), threading.Event()

    def block(delivery: Delivery) -> None:
        begun.set()
        go.wait(PATIENCE_SECONDS)

    register("block", block, timeout=timedelta(seconds=1))
    message = script(handler="block", max_attempts=1)
    worker = start(concurrency=1, grace=SHORT)
    assert begun.wait(PATIENCE_SECONDS)
    worker.stop()
    worker.join()
    go.set()
    assert worker.clean
    assert where(message) == "dead: timed_out"


def test_a_message_whose_handler_blocks_the_loop_is_given_up(start: Start, register: Register) -> None:
    go = threading.Event()

    async def block(delivery: Delivery) -> None:
        go.wait(PATIENCE_SECONDS)

    register("block", block, timeout=SHORT)
    message = script(handler="block", max_attempts=1)
    worker = start(grace=SHORT)
    eventually(lambda: DeadLetter.objects.exists())
    assert where(message) == "dead: timed_out"
    go.set()
    worker.stop()
    worker.join()
    assert worker.ledger.totals()["completed"] == 0


def test_an_atomic_handler_that_was_given_up_commits_nothing(start: Start, register: Register) -> None:
    def stubborn(delivery: Delivery) -> None:
        sql_in_handler("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, %s)", delivery.id, 1)
        if delivery.attempt == 1:
            while True:
                with suppress(HandlerTimeout):
                    if sql_in_handler("SELECT FROM scripted_mark WHERE name = 'go'"):
                        return
                    time.sleep(0.01)

    # The second attempt has to end within the timeout, on a new connection.
    register("stubborn", stubborn, timeout=timedelta(seconds=2), atomic=True)
    message = script(handler="stubborn")
    worker = start(concurrency=1, grace=SHORT, maintenance=True)
    eventually(lambda: ArchivedMessage.objects.filter(id=message).exists())
    assert ArchivedMessage.objects.get(id=message).attempts == 2
    mark("go")
    open_ = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in trans%%'"
    eventually(lambda: sql(open_)[0][0] == 0)
    worker.stop()
    worker.join()
    assert len(effects()) == 1


def test_a_timeout_is_longer_than_zero(register: Register) -> None:
    with pytest.raises(ValueError, match="timeout of the handler 'h'"):
        register("h", spin, timeout=timedelta(0))
