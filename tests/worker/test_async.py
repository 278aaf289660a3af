"""Async handlers: many at the same time in one thread, each as if it were alone."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from django_pgqueue import Complete, Defer, Delivery, Reject, Retry, handlers
from django_pgqueue.models import ArchivedMessage, Channel, Message
from django_pgqueue.models import DeadLetter as DeadMessage
from django_pgqueue.worker.buffer import Buffer
from tests.support.sql import sql
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import script, scripts, where

Drain = Callable[..., dict[str, int]]
Register = Callable[..., None]
Start = Callable[..., Any]


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
@pytest.mark.parametrize("raises", [False, True], ids=["returned", "raised"])
@pytest.mark.parametrize(
    ("outcome", "place"),
    [
        (Complete(result=7), "completed"),
        (Defer(delay=timedelta(hours=1)), "live: scheduled"),
        (Retry(after=timedelta(hours=1)), "live: scheduled"),
        (Reject("refused"), "dead: refused"),
    ],
    ids=["complete", "defer", "retry", "dead_letter"],
)
def test_an_async_handler_answers_as_any_other(
    drain: Drain, register: Register, outcome: Any, place: str, raises: bool, waits: bool
) -> None:
    async def answer(delivery: Delivery) -> Any:
        if waits:
            await asyncio.sleep(0.001)
        if raises:
            raise outcome
        return outcome

    register("answer", answer)
    message = script(handler="answer")
    drain()
    assert where(message) == place


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
def test_whatever_it_raises_fails_its_message_only(
    drain: Drain, register: Register, error: type[BaseException], waits: bool
) -> None:
    async def fail(delivery: Delivery) -> None:
        if waits:
            await asyncio.sleep(0.001)
        if delivery.payload == ["bad"]:
            raise error("no")

    register("fail", fail)
    good = scripts(5, handler="fail")
    bad = script("bad", handler="fail", max_attempts=1)
    good += scripts(5, handler="fail")
    assert drain() == {"completed": 10, "dead_lettered": 1}
    assert {where(message) for message in good} == {"completed"}
    assert DeadMessage.objects.get(id=bad).errors[0]["type"].endswith(error.__name__)


def test_an_outcome_is_written_if_the_worker_stops_when_its_handler_ends(start: Start, register: Register) -> None:
    ended = threading.Event()

    async def handle(delivery: Delivery) -> None:
        ended.set()

    register("handle", handle)
    message = script(handler="handle")
    worker = start()
    assert ended.wait(PATIENCE_SECONDS)
    worker.stop()
    worker.join()
    assert where(message) == "completed"


def test_handlers_wait_beside_each_other(drain: Drain, register: Register) -> None:
    together = asyncio.Barrier(20)

    async def meet(delivery: Delivery) -> None:
        await together.wait()

    register("meet", meet)
    scripts(20, handler="meet")
    assert drain(async_concurrency=20) == {"completed": 20}


def test_no_more_than_the_concurrency_run_at_once(drain: Drain, register: Register) -> None:
    running: set[int] = set()
    most = 0

    async def count(delivery: Delivery) -> None:
        nonlocal most
        running.add(delivery.id)
        most = max(most, len(running))
        await asyncio.sleep(0.005)
        running.discard(delivery.id)

    register("count", count)
    scripts(40, handler="count")
    assert drain(async_concurrency=3) == {"completed": 40}
    assert most == 3


def test_context_variables_are_gone_with_the_message(drain: Drain, register: Register) -> None:
    tenant = contextvars.ContextVar("tenant", default="nobody")
    seen: list[str] = []

    async def look(delivery: Delivery) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant of {delivery.id}")
        if delivery.id % 2:
            await asyncio.sleep(0.001)
            seen.append(tenant.get())
            assert tenant.get() == f"tenant of {delivery.id}"

    register("look", look)
    messages = scripts(20, handler="look")
    assert drain() == {"completed": 20}
    assert seen.count("nobody") == 20
    assert len(seen) == 20 + sum(message % 2 for message in messages)


def test_a_handler_sees_a_task_of_its_own_and_may_use_timeouts_and_groups(drain: Drain, register: Register) -> None:
    async def limited(delivery: Delivery) -> Any:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(asyncio.sleep(0.001, number)) for number in range(3)]
            return Complete([task.result() for task in tasks])

    register("limited", limited)
    scripts(5, handler="limited")
    assert drain(async_concurrency=2) == {"completed": 5}
    assert {tuple(result) for result in ArchivedMessage.objects.values_list("result", flat=True)} == {(0, 1, 2)}


def test_the_orm_works_and_blocks_no_other_handler(drain: Drain, register: Register) -> None:
    async def query(delivery: Delivery) -> None:
        assert await Channel.objects.acount() == 1
        await sync_to_async(sql)("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, 1)", delivery.id)

    register("query", query)
    messages = scripts(20, handler="query")
    assert drain() == {"completed": 20}
    assert sorted(row[0] for row in sql("SELECT message_id FROM scripted_effect")) == messages
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    eventually(lambda: sql(count)[0][0] == 0)


def test_a_connection_that_broke_in_one_handler_is_whole_in_the_next(start: Start, register: Register) -> None:
    async def query(delivery: Delivery) -> None:
        if delivery.payload == ["break"] and delivery.attempt == 1:
            await sync_to_async(sql)("SELECT pg_terminate_backend(pg_backend_pid())")
        await Channel.objects.acount()

    register("query", query)
    broken = script("break", handler="query")
    start(async_concurrency=1, maintenance=True)
    eventually(lambda: ArchivedMessage.objects.filter(id=broken).exists())
    scripts(10, handler="query")
    eventually(lambda: ArchivedMessage.objects.count() == 11)
    assert ArchivedMessage.objects.filter(errors__isnull=True).count() == 10


def test_a_batch_is_one_call(start: Start, register: Register) -> None:
    sizes: list[int] = []

    async def batch(deliveries: list[Delivery]) -> dict[int, Any]:
        sizes.append(len(deliveries))
        await asyncio.sleep(0)
        if any(delivery.payload == ["bad"] for delivery in deliveries):
            raise ValueError("bad")
        return {delivery.id: Reject("no") for delivery in deliveries if delivery.payload == ["no"]}

    register("batch", batch, batch=10)
    scripts(20, handler="batch")
    refused, bad = script("no", handler="batch"), script("bad", handler="batch", max_attempts=1)
    start(async_concurrency=2, once=True, batch=30).join()
    assert sizes == [10, 10, 2, 1, 1]
    assert (where(refused), where(bad)) == ("dead: no", "dead: failed")


def test_both_kinds_of_handlers_are_served_by_one_worker(drain: Drain, register: Register) -> None:
    async def asynchronous(delivery: Delivery) -> None:
        await asyncio.sleep(0.001)

    register("asynchronous", asynchronous)
    for _ in range(10):
        scripts(10, ["effect"])
        scripts(10, handler="asynchronous")
    assert drain() == {"completed": 200}


@pytest.mark.parametrize("drains", [True, False])
@pytest.mark.parametrize("done", [False, True], ids=["", "done before the next dequeue"])
def test_a_kind_that_has_nothing_to_do_does_not_hold_the_other_back(
    start: Start, register: Register, monkeypatch: pytest.MonkeyPatch, drains: bool, done: bool
) -> None:
    async def quick(delivery: Delivery) -> None: ...

    register("quick", quick)
    scripts(500, handler="quick")
    if done:
        monkeypatch.setattr(Buffer, "busy", False)
    start(drain=drains, batch=50)
    eventually(lambda: ArchivedMessage.objects.count() == 500)
    # One moment for each dequeue; a few small ones at first.
    dequeues = ArchivedMessage.objects.values("leased_at").distinct().count()
    assert dequeues <= 25


def test_slow_threads_do_not_keep_async_messages_waiting(start: Start, register: Register) -> None:
    async def quick(delivery: Delivery) -> None: ...

    register("quick", quick)
    slow = scripts(30, ["await", "go"])
    quick_ones = scripts(30, handler="quick")
    worker = start(concurrency=2, maintenance=True)
    eventually(lambda: ArchivedMessage.objects.filter(id__in=quick_ones).count() == 30)
    assert not ArchivedMessage.objects.filter(id__in=slow).exists()
    sql("INSERT INTO scripted_mark (name) VALUES ('go')")
    eventually(lambda: ArchivedMessage.objects.count() == 60)
    assert worker.ledger.totals()["retried"] == 0


def test_an_async_handler_that_nothing_calls_makes_a_worker_give_nothing_back(start: Start, register: Register) -> None:
    async def never(delivery: Delivery) -> None: ...

    register("never", never)
    scripts(30, ["await", "go"])
    worker = start(concurrency=2)
    eventually(lambda: worker._dispatch.running == 2)
    time.sleep(1)  # time for what must not happen
    assert sql("SELECT count(*), sum(attempts) FROM pgqueue_message WHERE status = 2") == [(2, 2)]
    sql("INSERT INTO scripted_mark (name) VALUES ('go')")
    eventually(lambda: ArchivedMessage.objects.count() == 30)
    totals = worker.ledger.totals()
    assert (totals["completed"], totals["deferred"], totals["given_back"]) == (30, 0, 0)


def test_a_stopping_worker_waits_for_what_runs_and_gives_the_rest_back(start: Start, register: Register) -> None:
    started: list[int] = []
    go = asyncio.Event()

    async def wait(delivery: Delivery) -> None:
        started.append(delivery.id)
        await go.wait()

    register("wait", wait)
    messages = scripts(5, handler="wait")
    worker = start(async_concurrency=2, once=True, batch=5)
    eventually(lambda: len(started) == 2)
    worker.stop()
    eventually(lambda: Message.objects.filter(status=Message.Status.READY).count() == 3)
    worker._loop.call(go.set)
    worker.join()
    assert worker.clean
    assert sorted(where(message) for message in messages) == ["completed"] * 2 + ["live: ready"] * 3


def test_the_connection_of_the_orm_is_closed_however_late_its_thread_is(start: Start, register: Register) -> None:
    backends: list[int] = []
    go = threading.Event()

    def keep_the_thread() -> None:
        backends.append(sql("SELECT pg_backend_pid()")[0][0])
        go.wait(PATIENCE_SECONDS)

    async def handle(delivery: Delivery) -> None:
        await sync_to_async(keep_the_thread)()

    register("late", handle)
    script(handler="late")
    worker = start(shutdown_timeout=timedelta(seconds=0.1))
    eventually(lambda: backends)
    worker.stop()
    worker.join()
    # Longer than the loop waits for its tasks.
    time.sleep(2.5)
    go.set()
    eventually(lambda: not sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s", *backends), seconds=30)


def test_an_async_handler_cannot_be_atomic() -> None:
    async def function(delivery: Delivery) -> None: ...

    with pytest.raises(ValueError, match="async and atomic"):
        handlers.handler("both", atomic=True)(function)


def test_the_test_connection_is_left_alone(drain: Drain, register: Register) -> None:
    async def nothing(delivery: Delivery) -> None: ...

    register("nothing", nothing)
    backend = connection.connection.info.backend_pid
    script(handler="nothing")
    drain()
    assert connection.connection.info.backend_pid == backend
