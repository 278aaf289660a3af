"""A worker gives back what it has leased ahead when a breaker opens; the attempts of these messages do not count."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import MagicMock

import pytest

from django_pgqueue import Breaker, Delivery, NewMessage, breaker_open, breaker_set, channel_set, enqueue_many
from django_pgqueue.models import Message
from django_pgqueue.outcomes import Complete, Retry
from django_pgqueue.worker.dispatch import Dispatch
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.listening import breaker_of
from django_pgqueue.worker.middleware import Middleware
from django_pgqueue.worker.options import WorkerOptions
from tests.support.cases import cases
from tests.support.deliveries import DELIVERY
from tests.support.sql import sql
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import make_runtime

Register = Callable[..., None]
Start = Callable[..., Any]
FAILURES = 3
LEASED = Message.Status.LEASED


class Calls:
    """Count the calls of a handler: the first ones fail at once, the later ones when they are let go."""

    def __init__(self, at_once: int) -> None:
        self.count = 0
        self.go = threading.Event()
        self._at_once = at_once

    def thread(self, delivery: Delivery) -> None:
        self.count += 1
        if self.count > self._at_once:
            assert self.go.wait(PATIENCE_SECONDS)
        raise ValueError("it is down")

    async def task(self, delivery: Delivery) -> None:
        self.count += 1
        if self.count > self._at_once:
            await asyncio.to_thread(self.go.wait, PATIENCE_SECONDS)
        raise ValueError("it is down")


@pytest.mark.parametrize("policy", [{}, {"concurrency": 1}], ids=["plain", "limited"])
@pytest.mark.parametrize("kind", ["thread", "task"])
def test_messages_that_are_not_started_go_back_and_spend_no_attempt(
    start: Start, register: Register, kind: str, policy: dict[str, Any]
) -> None:
    calls = Calls(FAILURES)
    register("guarded", getattr(calls, kind), **policy)
    breaker_set("guarded", Breaker(failures=FAILURES, pause=timedelta(hours=1)))
    enqueue_many([NewMessage(handler="guarded", max_attempts=1000) for _ in range(30)])

    worker = start(concurrency=1, async_concurrency=1, batch=10, listen="default")

    try:
        eventually(lambda: sql("SELECT count(*) FROM pgqueue_limit WHERE open_until IS NOT NULL") == [(1,)])
        # One may have begun before the worker heard of it.
        eventually(lambda: Message.objects.filter(status=LEASED).count() <= 1, seconds=30)
        time.sleep(0.3)  # time for what must not happen
        assert Message.objects.filter(status=LEASED).count() <= 1
    finally:
        calls.go.set()
    worker.stop()
    worker.join()
    assert FAILURES <= calls.count <= FAILURES + 1
    assert sum(Message.objects.values_list("attempts", flat=True)) == calls.count


class Failing:
    """Count the calls of a handler that fails, at once or after some milliseconds."""

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._seconds = seconds

    def thread(self, delivery: Delivery) -> None:
        with self._lock:
            self.count += 1
        time.sleep(self._seconds)
        raise ValueError("it is down")

    async def task(self, delivery: Delivery) -> None:
        self.count += 1
        await asyncio.sleep(self._seconds)
        raise ValueError("it is down")


SLOTS = 8


@pytest.mark.parametrize("listen", ["default", None], ids=["notified", "polling"])
@pytest.mark.parametrize("seconds", [0, 0.02], ids=["at once", "soon"])
@pytest.mark.parametrize("kind", ["thread", "task"])
def test_no_more_calls_run_than_the_slots_and_the_failures_that_open_it(
    start: Start, register: Register, kind: str, seconds: float, listen: str | None
) -> None:
    calls = Failing(seconds)
    register("guarded", getattr(calls, kind))
    breaker_set("guarded", Breaker(failures=5, pause=timedelta(hours=1)))
    enqueue_many([NewMessage(handler="guarded", max_attempts=1000, backoff=timedelta(hours=1)) for _ in range(200)])

    worker = start(concurrency=SLOTS, async_concurrency=SLOTS, listen=listen)
    eventually(lambda: sql("SELECT count(*) FROM pgqueue_limit WHERE open_until IS NOT NULL") == [(1,)])
    eventually(lambda: not Message.objects.filter(status=LEASED).exists(), seconds=30)
    worker.stop()
    worker.join()

    assert 5 <= calls.count <= 5 - 1 + SLOTS
    assert sum(Message.objects.values_list("attempts", flat=True)) == calls.count


def test_workers_together_run_no_more_calls_than_their_slots_and_the_failures(start: Start, register: Register) -> None:
    calls = Failing(0.01)
    register("guarded", calls.thread)
    breaker_set("guarded", Breaker(failures=5, pause=timedelta(hours=1)))
    enqueue_many([NewMessage(handler="guarded", max_attempts=1000, backoff=timedelta(hours=1)) for _ in range(200)])

    workers = [start(concurrency=SLOTS, listen="default") for _ in range(3)]
    eventually(lambda: sql("SELECT count(*) FROM pgqueue_limit WHERE open_until IS NOT NULL") == [(1,)])
    eventually(lambda: not Message.objects.filter(status=LEASED).exists(), seconds=30)
    for worker in workers:
        worker.stop()
        worker.join()

    assert 5 <= calls.count <= 5 - 1 + 3 * SLOTS


def make_dispatch(put: list[Any], guarded: set[str]) -> tuple[Dispatch, MagicMock, dict[str, set[int]]]:
    """A dispatch, the buffer of its threads, and the failures that it holds."""
    runtime = make_runtime(WorkerOptions(using="default"))
    dispatch = Dispatch(runtime, Middleware(()), guarded=lambda: frozenset(guarded), put=put.extend)
    returns = {"withdraw.return_value": [], "close.return_value": [], "free.return_value": 10, "put.return_value": {}}
    dispatch.threads, dispatch.loop = dispatch._sides = (MagicMock(**returns), MagicMock(**returns))
    return dispatch, dispatch.threads, dispatch._unwritten


@pytest.mark.usefixtures("queue")
def test_a_failure_holds_its_handler_until_it_is_written_if_that_has_a_breaker() -> None:
    dispatch, threads, unwritten = make_dispatch([], {"guarded"})
    failed = Execution(replace(DELIVERY, handler="guarded"), Retry())
    dispatch.failed([Execution(replace(DELIVERY, handler="guarded"), Complete()), Execution(DELIVERY, Retry())])
    assert unwritten == {}
    dispatch.failed([failed])
    assert unwritten == {"guarded": {DELIVERY.id}}
    dispatch.settled([failed, Execution(DELIVERY, Retry())])
    assert unwritten == {}
    threads.resume.assert_called_once()


def test_a_breaker_of_a_channel_leaves_the_messages_of_others(start: Start, register: Register) -> None:
    channel_set(channel="other")
    calls = Calls(1)
    register("guarded", calls.thread)
    breaker_set("guarded", Breaker(failures=100, per="channel"))
    enqueue_many([NewMessage(handler="guarded", max_attempts=1)])
    start(once=True).join()
    assert calls.count == 1

    enqueue_many([NewMessage(handler="guarded", channel=channel) for channel in ("default", "other") * 3])
    # One dequeue takes all, however long the first call took.
    start(concurrency=1, once=True, batch=10, listen="default")
    eventually(lambda: Message.objects.filter(status=LEASED).count() == 6)
    held = set(Message.objects.filter(status=LEASED, channel__name="other").values_list("id", flat=True))
    breaker_open("guarded", channel="default")

    try:
        eventually(lambda: Message.objects.filter(status=LEASED).count() <= 4, seconds=30)
        time.sleep(0.2)  # time for what must not happen
        assert held <= set(Message.objects.filter(status=LEASED).values_list("id", flat=True))
    finally:
        calls.go.set()


@cases("payload", ["", "{}", "[]", "7", '{"handler": "mail"}'])
def test_a_notification_that_some_client_has_made_up_is_left_out(payload: str) -> None:
    assert breaker_of(payload) is None


def test_a_worker_that_begins_to_listen_learns_which_breakers_are_open(start: Start, register: Register) -> None:
    calls = Calls(0)
    register("guarded", calls.thread, concurrency=1)
    breaker_set("guarded", Breaker(failures=100, pause=timedelta(hours=1)))
    enqueue_many([NewMessage(handler="guarded", max_attempts=1000) for _ in range(5)])
    worker = start(concurrency=1, once=True, batch=10, listen="default")
    try:
        eventually(lambda: Message.objects.filter(status=LEASED).count() == 5)
        sql("SET pgqueue.notify = off")
        breaker_open("guarded")
        sql("RESET pgqueue.notify")
        sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'pgqueue:listen:%%' AND datname = current_database()"
        )
        eventually(lambda: Message.objects.filter(status=LEASED).count() == 1, seconds=30)
    finally:
        calls.go.set()
        worker.stop()
        worker.join()


def test_messages_of_a_dequeue_that_was_under_way_go_back(register: Register) -> None:
    register("guarded", lambda delivery: None)
    put: list[Any] = []
    dispatch, buffer, _ = make_dispatch(put, set())
    assert dispatch.withdraw(lambda delivery: delivery.handler == "guarded") == []

    dispatch.put([replace(DELIVERY, id=1, handler="guarded"), replace(DELIVERY, id=2, handler="other")])

    assert [execution.delivery.id for execution in put] == [1]
    started, _ = buffer.put.call_args.args
    assert [delivery.id for delivery in started] == [2]

    assert not dispatch.tend()  # as before each dequeue: what a later one brings has been allowed to try
    dispatch.put([replace(DELIVERY, id=3, handler="guarded")])

    started, _ = buffer.put.call_args.args
    assert [delivery.id for delivery in started] == [3]
    assert len(put) == 1


def test_messages_of_a_dequeue_that_ends_after_a_stop_go_back() -> None:
    put: list[Any] = []
    dispatch, buffer, _ = make_dispatch(put, set())
    dispatch.close()
    dispatch.put([DELIVERY])
    assert [execution.delivery for execution in put] == [DELIVERY]
    buffer.put.assert_not_called()


def test_a_message_whose_lease_is_lost_while_it_is_put_is_found_in_the_buffer() -> None:
    dispatch, buffer, _ = make_dispatch([], set())
    found: list[bool] = []
    dropping = threading.Thread(target=lambda: found.append(dispatch.drop(DELIVERY)))
    here: list[Delivery] = []

    def put(deliveries: list[Delivery], most: int) -> dict[int, list[Delivery]]:
        dropping.start()
        dropping.join(0.2)
        here.extend(deliveries)
        return {}

    buffer.put.side_effect = put
    buffer.drop.side_effect = lambda lost: lost in here
    dispatch.loop.drop.return_value = False
    dispatch.put([DELIVERY])
    dropping.join()
    assert found == [True]
