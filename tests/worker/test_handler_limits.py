"""A handler's own concurrency, and the messages behind those that have to wait for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from django_pgqueue import Delivery
from django_pgqueue.models import ArchivedMessage
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import effects, scripts

Drain = Callable[..., dict[str, int]]
Register = Callable[..., None]
Start = Callable[..., Any]


class Gauge:
    """How many run, and ran at most."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self.running -= 1


@pytest.fixture(params=[False, True], ids=["threads", "loop"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return request.param


def limited(gauge: Gauge, asynchronous: bool) -> Callable[..., Any]:
    def thread(delivery: Delivery) -> None:
        with gauge:
            time.sleep(0.005)

    async def task(delivery: Delivery) -> None:
        with gauge:
            await asyncio.sleep(0.005)

    return task if asynchronous else thread


def test_no_more_calls_run_than_the_handler_allows(drain: Drain, register: Register, asynchronous: bool) -> None:
    gauge = Gauge()
    register("limited", limited(gauge, asynchronous), concurrency=2)
    scripts(30, handler="limited")
    assert drain(concurrency=6) == {"completed": 30}
    assert gauge.most == 2


def test_failures_free_their_place(drain: Drain, register: Register, asynchronous: bool) -> None:
    def thread(delivery: Delivery) -> None:
        raise ValueError

    async def task(delivery: Delivery) -> None:
        raise ValueError

    register("limited", task if asynchronous else thread, concurrency=1)
    scripts(10, handler="limited", max_attempts=1)
    assert drain(concurrency=3) == {"dead_lettered": 10}


def test_messages_behind_them_do_not_wait(start: Start, register: Register, asynchronous: bool) -> None:
    go = threading.Event()

    def thread(delivery: Delivery) -> None:
        go.wait(PATIENCE_SECONDS)

    async def task(delivery: Delivery) -> None:
        await asyncio.to_thread(go.wait, PATIENCE_SECONDS)

    register("limited", task if asynchronous else thread, concurrency=1)
    slow = scripts(12, handler="limited")
    quick = scripts(20, ["effect"])
    worker = start(concurrency=2, async_concurrency=2, batch=10, maintenance=True)
    eventually(lambda: len(effects()) == 20)
    assert sorted(message for message, _ in effects()) == quick
    assert not ArchivedMessage.objects.filter(id__in=slow).exists()
    go.set()
    eventually(lambda: ArchivedMessage.objects.count() == 32)
    assert worker.ledger.totals()["retried"] == 0
    assert set(ArchivedMessage.objects.values_list("attempts", flat=True)) == {1}


def test_a_batch_is_one_call(drain: Drain, register: Register) -> None:
    gauge = Gauge()

    def batch(deliveries: list[Delivery]) -> None:
        with gauge:
            time.sleep(0.005)

    register("batch", batch, batch=5, concurrency=1)
    scripts(40, handler="batch")
    assert drain(concurrency=3) == {"completed": 40}
    assert gauge.most == 1


def test_messages_that_wait_for_their_turn_are_given_back_at_the_end(start: Start, register: Register) -> None:
    go = threading.Event()
    register("limited", lambda delivery: go.wait(PATIENCE_SECONDS) and None, concurrency=1)
    scripts(5, handler="limited")
    worker = start(concurrency=3, once=True, batch=5)
    eventually(lambda: worker._dispatch.running == 1)
    worker.stop()
    eventually(lambda: len(worker.board) == 1)
    go.set()
    worker.join()
    assert worker.clean
    assert ArchivedMessage.objects.count() == 1


@pytest.mark.parametrize("option", ["concurrency", "batch"])
def test_a_limit_is_at_least_one(register: Register, option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} of the handler 'h'"):
        register("h", lambda delivery: None, **{option: 0})
