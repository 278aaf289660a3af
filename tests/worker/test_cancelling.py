"""Cancelling a worker's messages: running handlers see the request, waiting messages are not started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django_pgqueue import Cancelled, Delivery, cancel
from tests.support.waiting import eventually
from tests.worker.conftest import effects, mark, marks, result, script, where

Start = Callable[..., Any]
Register = Callable[..., None]
# Heartbeats bring the request, at every third of it.
LEASE = timedelta(seconds=0.6)
# Long enough for its heartbeats to come in time on a busy machine: the sweeper would give the message away.
SWEPT_LEASE = timedelta(seconds=3)


def test_a_running_handler_sees_the_request_and_may_end(start: Start, register: Register) -> None:
    def work(delivery: Delivery) -> None:
        mark("running")
        while True:
            delivery.raise_if_cancelled()
            time.sleep(0.01)

    register("work", work)
    message = script(handler="work")
    worker = start(lease=LEASE)
    eventually(lambda: marks("running"))
    assert cancel(message, reason="wrong customer") == {message: "requested"}
    eventually(lambda: where(message) == "cancelled")
    assert result(message) == {"reason": "wrong customer"}
    eventually(lambda: worker.ledger.totals()["cancelled"] == 1)


def test_a_handler_that_does_not_ask_completes(start: Start, register: Register) -> None:
    seen: list[bool] = []

    def work(delivery: Delivery) -> None:
        mark("running")
        eventually(lambda: delivery.cancelled)
        seen.append(delivery.cancelled)

    register("work", work)
    message = script(handler="work")
    start(lease=LEASE)
    eventually(lambda: marks("running"))
    cancel(message)
    eventually(lambda: where(message) == "completed")
    assert seen == [True]


def test_a_cancelled_message_that_fails_is_not_tried_again(start: Start, register: Register) -> None:
    def work(delivery: Delivery) -> None:
        mark("running")
        eventually(lambda: delivery.cancelled)
        raise ValueError("cut short")

    register("work", work)
    message = script(handler="work")
    worker = start(lease=SWEPT_LEASE, maintenance=True)
    eventually(lambda: marks("running"))
    cancel(message)
    eventually(lambda: where(message) == "cancelled")
    assert marks("running") == 1
    eventually(lambda: worker.ledger.totals()["cancelled"] == 1)


def test_an_async_handler_is_cancelled_where_it_waits(start: Start, register: Register) -> None:
    started: list[int] = []

    async def work(delivery: Delivery) -> None:
        started.append(delivery.id)
        await asyncio.sleep(3600)

    register("work", work)
    message = script(handler="work")
    start(lease=LEASE)
    eventually(lambda: started)
    cancel(message, reason="wrong customer")
    eventually(lambda: where(message) == "cancelled")
    assert result(message) == {"reason": "wrong customer"}


def test_an_async_handler_may_clean_up_and_say_why(start: Start, register: Register) -> None:
    started: list[int] = []

    async def work(delivery: Delivery) -> Any:
        started.append(delivery.id)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            assert delivery.cancelled
            return Cancelled("half of it is done")

    register("work", work)
    message = script(handler="work")
    start(lease=LEASE)
    eventually(lambda: started)
    cancel(message)
    eventually(lambda: where(message) == "cancelled")
    assert result(message) == {"reason": "half of it is done"}


def test_a_message_that_waits_in_the_worker_is_not_started(start: Start) -> None:
    running, waiting = script(["effect"], ["mark", "running"], ["await", "go"]), script(["effect"])
    worker = start(concurrency=1, once=True, batch=2, lease=LEASE)
    eventually(lambda: marks("running"))
    assert cancel([waiting], reason="no") == {waiting: "requested"}
    eventually(lambda: where(waiting) == "cancelled")
    mark("go")
    worker.join()
    assert where(running) == "completed"
    assert effects() == [(running, 1)]
    assert result(waiting) == {"reason": "no"}


def test_a_handler_may_cancel_by_itself(start: Start, register: Register) -> None:
    register("work", lambda delivery: Cancelled("nobody is interested"))
    message = script(handler="work")
    worker = start(drain=True)
    worker.join()
    assert where(message) == "cancelled"
    assert result(message) == {"reason": "nobody is interested"}
    assert worker.ledger.totals()["cancelled"] == 1
