"""A handler's own concurrency, and the messages behind those that have to wait for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from django_pgqueue import Delivery, handlers
from django_pgqueue.models import ArchivedMessage
from django_pgqueue.worker.run.limits import LONGEST_DELAY_SECONDS, HandlerLimits
from tests.support.deliveries import DELIVERY
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


class TestLimits:
    def messages(self, count: int) -> list[Delivery]:
        return [replace(DELIVERY, id=number, handler="limited") for number in range(count)]

    def test_twice_as_many_stay_as_may_run(self, register: Register) -> None:
        register("limited", lambda delivery: None, concurrency=3)
        stay, back = HandlerLimits(keep=False).split([*self.messages(10), DELIVERY])
        assert [delivery.id for delivery in stay] == [0, 1, 2, 3, 4, 5, DELIVERY.id]
        assert [delivery.id for surplus in back.values() for delivery in surplus] == [6, 7, 8, 9]

    def test_the_more_go_back_the_longer_they_stay_away(self, register: Register) -> None:
        register("limited", lambda delivery: None, concurrency=1)
        limits = HandlerLimits(keep=False)
        [delivery, _], _ = limits.split(self.messages(2))
        assert limits.start(handlers.find("limited"), delivery)
        limits.end(handlers.find("limited"), 1, 2.0)
        limits.split(self.messages(1))
        _, back = limits.split(self.messages(6))
        assert list(back) == [2, 4, 6, 8, 10]
        _, back = limits.split(self.messages(100))
        assert max(back) == LONGEST_DELAY_SECONDS

    def test_the_first_batch_counts_by_its_messages(self, register: Register) -> None:
        register("limited", lambda batch: None, concurrency=1, batch=10)
        limits, handler = HandlerLimits(keep=False), handlers.find("limited")
        [first, *_], _ = limits.split(self.messages(10))
        assert limits.start(handler, first)
        limits.end(handler, 10, 0.01)
        stay, back = limits.split(self.messages(100))
        assert (len(stay), back) == (100, {}), "a message takes 0.001 s, so 10 × 20 may wait here"

    def test_a_worker_that_works_everything_off_keeps_all(self, register: Register) -> None:
        register("limited", lambda delivery: None, concurrency=1)
        assert HandlerLimits(keep=True).split(self.messages(10)) == (self.messages(10), {})

    def test_a_lost_message_makes_room(self, register: Register) -> None:
        register("limited", lambda delivery: None, concurrency=1)
        limits = HandlerLimits(keep=False)
        first, second, third = self.messages(3)
        handler = handlers.find("limited")
        limits.split([first, second])
        assert (limits.start(handler, first), limits.start(handler, second)) == (True, False)
        assert (limits.drop(second), limits.drop(second)) == (True, False)
        assert limits.split([third]) == ([third], {})


@pytest.mark.parametrize("option", ["concurrency", "batch"])
def test_a_limit_is_at_least_one(register: Register, option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} of the handler 'h'"):
        register("h", lambda delivery: None, **{option: 0})
