"""The buffer: how much a worker takes, and what it does not start."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker.run.buffer import Buffer
from django_pgqueue.worker.run.limits import HandlerLimits
from tests.support.deliveries import DELIVERY
from tests.support.waiting import eventually


def deliveries(count: int, **fields: object) -> list[Delivery]:
    return [replace(DELIVERY, id=number, **fields) for number in range(1, count + 1)]


@pytest.fixture
def make(register: Callable[..., None]) -> Callable[..., Buffer]:
    def make(concurrency: int = 4, batch: int = 50, together: int | None = None) -> Buffer:
        for name in ("h", "other"):
            register(name, lambda delivery: None, batch=together)
        return Buffer(concurrency, batch, limits=HandlerLimits(keep=False), wake=lambda: None)

    return make


def test_before_the_pace_is_known_it_takes_what_the_slots_can_start(make: Callable[..., Buffer]) -> None:
    assert make(concurrency=4).room() == 4


def test_fast_handlers_get_messages_ahead_in_batches(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=4, batch=10)
    buffer.put(deliveries(4))
    buffer.finished(buffer.take(), 0.001)
    # 44 are wanted; 3 wait. A dequeue is worth it, of a batch at most.
    assert buffer.room() == 10
    buffer.put(deliveries(38))
    assert buffer.room() == 0, "too little room for another dequeue"


def test_slow_handlers_get_nothing_ahead(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=2)
    buffer.put(deliveries(2))
    taken = [buffer.take(), buffer.take()]
    assert (None not in taken, buffer.room()) == (True, 0)
    buffer.finished(taken[0], 5.0)
    assert buffer.room() == 1


def test_a_channel_that_has_nothing_here_starts_before_messages_that_were_leased_ahead(
    make: Callable[..., Buffer],
) -> None:
    """A limit may let it have one message at a time; the others have more."""
    buffer = make(concurrency=1)
    ahead = deliveries(5, channel="busy")
    limited = [replace(DELIVERY, id=number, channel="limited") for number in (6, 7)]
    buffer.put(ahead)
    assert buffer.take() == [ahead[0]]
    buffer.put(limited)
    assert [buffer.take() for _ in range(6)] == [[limited[0]], *([message] for message in ahead[1:]), [limited[1]]]


def test_a_free_slot_gets_a_whole_batch_when_the_calls_before_took_batches(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=2, batch=100, together=30)
    assert buffer.room() == 2, "it may be of another handler"
    for _ in range(8):
        buffer.put(deliveries(2))
        buffer.finished(buffer.take(), 5.0)
    assert buffer.room() == 60
    buffer.put(deliveries(60))
    assert [len(buffer.take()) for _ in range(2)] == [30, 30]
    assert buffer.room() == 0, "both slots run, for long"


def test_a_batch_leaves_work_to_the_other_slots(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=2, together=50)
    with ThreadPoolExecutor(2) as slots:
        taken = [slots.submit(buffer.take) for _ in range(2)]
        eventually(lambda: buffer._idle == 2, problem="they do not both wait for work")
        buffer.put(deliveries(40))
        assert [len(future.result()) for future in taken] == [20, 20]


def test_a_batch_is_whole_while_the_other_slots_are_busy(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=4, together=30)
    buffer.put(deliveries(40))
    assert [len(buffer.take()) for _ in range(2)] == [30, 10]


def test_a_batch_is_of_one_handler(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1, together=50)
    buffer.put([*deliveries(3), *deliveries(2, handler="other")])
    assert [{delivery.handler for delivery in buffer.take()} for _ in range(2)] == [{"h"}, {"other"}]


def test_messages_that_were_not_started_come_back_when_the_buffer_is_closed(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1)
    waiting = deliveries(3)
    buffer.put(waiting)
    buffer.take()
    assert buffer.close() == waiting[1:]
    assert buffer.take() is None


def test_a_lost_message_is_dropped_once_and_only_that_one(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1)
    lost, again = DELIVERY, replace(DELIVERY, attempt=2)
    buffer.put([lost, again])
    assert (buffer.drop(lost), buffer.drop(lost)) == (True, False)
    assert buffer.take() == [again]
