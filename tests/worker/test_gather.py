"""@handler(batch=…, gather=…): a batch waits for more messages of its channel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import NewMessage, channel_set, enqueue, enqueue_many, handler
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.worker.buffer import Buffer
from tests.support.cases import cases
from tests.support.deliveries import DELIVERY
from tests.support.waiting import eventually

SOON, LONG = timedelta(milliseconds=500), timedelta(seconds=10)
TRICKLE = 30


def in_threads(calls: list[int]) -> Callable[..., Any]:
    def take(deliveries: list[Any]) -> None:
        calls.append(len(deliveries))

    return take


def in_the_loop(calls: list[int]) -> Callable[..., Any]:
    async def take(deliveries: list[Any]) -> None:
        calls.append(len(deliveries))

    return take


@pytest.mark.parametrize("make", [in_threads, in_the_loop])
def test_a_trickle_makes_batches(start: Any, register: Any, make: Callable[..., Any]) -> None:
    calls: dict[str, list[int]] = {"t.at_once": [], "t.gather": []}
    register("t.at_once", make(calls["t.at_once"]), batch=100)
    register("t.gather", make(calls["t.gather"]), batch=100, gather=SOON)
    start(concurrency=4)
    for name, seen in calls.items():
        for number in range(TRICKLE):
            enqueue(name, number)
            time.sleep(0.02)
        eventually(lambda seen=seen: sum(seen) == TRICKLE)
    assert len(calls["t.gather"]) <= 8, calls
    assert len(calls["t.at_once"]) > 2 * len(calls["t.gather"]), calls


def test_a_full_batch_does_not_wait(start: Any, register: Any) -> None:
    calls: list[int] = []
    register("t.gather", in_threads(calls), batch=5, gather=LONG)
    channel_set(channel="acme")
    enqueue_many(NewMessage(handler="t.gather", channel=name) for name in ("default", "acme") for _ in range(5))
    began = time.monotonic()
    start(concurrency=4)
    eventually(lambda: sum(calls) == 10)
    assert time.monotonic() - began < LONG.total_seconds() / 2
    assert calls == [5, 5]


def test_other_handlers_do_not_wait_for_messages_that_gather(start: Any, register: Any) -> None:
    calls: list[int] = []
    done: list[int] = []
    register("t.gather", in_threads(calls), batch=100, gather=LONG)
    register("t.other", lambda delivery: done.append(delivery.id))
    start(concurrency=1)
    enqueue_many(NewMessage(handler="t.gather") for _ in range(20))
    enqueue_many(NewMessage(handler="t.other") for _ in range(20))
    eventually(lambda: len(done) == 20)
    assert calls == []


def test_the_lease_of_a_message_that_gathers_is_extended(start: Any, register: Any) -> None:
    calls: list[int] = []
    register("t.gather", in_threads(calls), batch=100, gather=timedelta(seconds=2))
    start(concurrency=1, lease=timedelta(seconds=1), maintenance=True)
    enqueue("t.gather")
    eventually(lambda: calls == [1])
    eventually(lambda: ArchivedMessage.objects.count() == 1)
    assert ArchivedMessage.objects.get().attempts == 1


def test_a_stop_gives_back_what_gathers_and_does_not_wait(start: Any, register: Any) -> None:
    calls: list[int] = []
    register("t.gather", in_threads(calls), batch=100, gather=LONG)
    worker = start(concurrency=2)
    enqueue_many(NewMessage(handler="t.gather") for _ in range(3))
    eventually(lambda: Message.objects.filter(status=Message.Status.LEASED).count() == 3)
    began = time.monotonic()
    worker.stop()
    worker.join()
    assert time.monotonic() - began < LONG.total_seconds() / 2
    assert (worker.clean, calls) == (True, [])
    assert set(Message.objects.values_list("status", "attempts")) == {(Message.Status.READY, 0)}


def test_a_drain_does_not_wait(drain: Any, register: Any) -> None:
    calls: list[int] = []
    register("t.gather", in_threads(calls), batch=100, gather=LONG)
    enqueue_many(NewMessage(handler="t.gather") for _ in range(3))
    began = time.monotonic()
    assert drain() == {"completed": 3}
    assert time.monotonic() - began < LONG.total_seconds() / 2


def test_a_lost_lease_leaves_the_messages_that_gather(register: Any) -> None:
    register("t.gather", in_threads([]), batch=2, gather=LONG)
    buffer = Buffer(1, 50, keep=False, held=(), wake=lambda: None)
    first, second, third = (replace(DELIVERY, id=number, handler="t.gather") for number in range(3))
    buffer.put([first], 9)
    assert (buffer.take(), buffer.unstarted, buffer.startable) == (None, 1, 0)
    assert buffer.drop(first)
    buffer.put([second, third], 9)
    assert buffer.wait()[1] == [second, third]
    assert buffer.unstarted == 0


def test_what_has_gathered_just_before_a_thread_waits_starts(register: Any, monkeypatch: Any) -> None:
    register("t.gather", in_threads([]), batch=2, gather=SOON)
    buffer = Buffer(1, 50, keep=False, held=(), wake=lambda: None)
    buffer.put([replace(DELIVERY, handler="t.gather")], 9)
    gathers_for = buffer.gathers_for

    def after_its_time() -> float | None:
        now = time.monotonic() + LONG.total_seconds()
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: now)
            return gathers_for()

    buffer.gathers_for = after_its_time  # type: ignore[method-assign]
    # Else it waits for the next message, and this one is closed.
    guard = threading.Timer(5, buffer.close)
    guard.start()
    taken = buffer.wait()
    guard.cancel()
    assert taken is not None


@cases(
    ("options", "problem"),
    [
        ({"gather": SOON}, "has gather and no batch"),
        ({"batch": 2, "gather": 0.2}, "takes a timedelta"),
        ({"batch": 2, "gather": timedelta(0)}, "takes a timedelta"),
        ({"batch": 2, "gather": timedelta(seconds=11)}, "of at most 10 s"),
    ],
)
def test_a_wrong_value_is_refused_when_the_handler_is_defined(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        handler("t.gather", **options)
