"""The buffer: how much a worker takes, and what it does not start."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker.buffer import Buffer
from django_pgqueue.worker.numbers import LONGEST_DELAY_SECONDS
from tests.support.deliveries import DELIVERY
from tests.support.waiting import eventually


def deliveries(count: int, **fields: object) -> list[Delivery]:
    return [replace(DELIVERY, id=number, **fields) for number in range(1, count + 1)]


# More messages than any of these tests has.
MANY = 1000


def run(buffer: Buffer, seconds: float) -> None:
    handler, taken = buffer.take()
    buffer.finished(handler, len(taken), seconds)


def messages(buffer: Buffer) -> list[Delivery]:
    return buffer.wait()[1]


@pytest.fixture
def make(register: Callable[..., None]) -> Callable[..., Buffer]:
    def make(concurrency: int = 4, batch: int = 50, together: int | None = None) -> Buffer:
        for name in ("h", "other"):
            register(name, lambda delivery: None, batch=together)
        return Buffer(concurrency, batch, keep=False, held=(), wake=lambda: None)

    return make


def test_before_the_pace_is_known_it_takes_what_the_slots_can_start(make: Callable[..., Buffer]) -> None:
    assert make(concurrency=4).room() == 4


def test_fast_handlers_get_messages_ahead_in_batches(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=4, batch=10)
    buffer.put(deliveries(4), MANY)
    run(buffer, 0.001)
    # 44 are wanted; 3 wait. A dequeue is worth it, of a batch at most.
    assert buffer.room() == 10
    buffer.put(deliveries(38), MANY)
    assert buffer.room() == 0, "too little room for another dequeue"


def test_slow_handlers_get_nothing_ahead(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=2)
    buffer.put(deliveries(2), MANY)
    taken = [buffer.take(), buffer.take()]
    assert (None not in taken, buffer.room()) == (True, 0)
    buffer.finished(taken[0][0], 1, 5.0)
    assert buffer.room() == 1


def test_a_channel_that_has_nothing_here_waits_for_one_message_of_another_channel(make: Callable[..., Buffer]) -> None:
    """A limit may let it have one message at a time; the others have more."""
    buffer = make(concurrency=1)
    ahead = deliveries(5, channel="busy")
    limited = [replace(DELIVERY, id=number, channel="limited") for number in (6, 7)]
    buffer.put(ahead, MANY)
    assert messages(buffer) == [ahead[0]]
    buffer.put(limited, MANY)
    assert [messages(buffer) for _ in range(6)] == [
        [message] for message in (ahead[1], limited[0], ahead[2], limited[1], *ahead[3:])
    ]


def test_a_message_starts_however_many_channels_come_after_it(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1)
    first, second = deliveries(2, channel="patient")
    buffer.put([first, second], MANY)
    started = []
    for number in range(3, 10):
        buffer.put([replace(DELIVERY, id=number, channel=f"new {number}")], MANY)
        started.append(messages(buffer))
    assert started.index([second]) <= 2, "after the one message of each channel that came before its turn"


def test_a_free_slot_gets_a_whole_batch_when_the_calls_before_took_batches(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=2, batch=100, together=30)
    assert buffer.room() == 2, "it may be of another handler"
    for _ in range(8):
        buffer.put(deliveries(2), MANY)
        run(buffer, 5.0)
    assert buffer.room() == 60
    buffer.put(deliveries(60), MANY)
    assert [len(messages(buffer)) for _ in range(2)] == [30, 30]
    assert buffer.room() == 0, "both slots run, for long"


def test_a_batch_leaves_work_to_the_other_slots(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=2, together=50)
    with ThreadPoolExecutor(2) as slots:
        taken = [slots.submit(messages, buffer) for _ in range(2)]
        eventually(lambda: buffer._idle == 2, problem="they do not both wait for work")
        buffer.put(deliveries(40), MANY)
        assert [len(future.result()) for future in taken] == [20, 20]


def test_a_batch_is_whole_while_the_other_slots_are_busy(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=4, together=30)
    buffer.put(deliveries(40), MANY)
    assert [len(messages(buffer)) for _ in range(2)] == [30, 10]


def test_a_batch_is_of_one_handler(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1, together=50)
    buffer.put([*deliveries(3), *deliveries(2, handler="other")], MANY)
    assert [{delivery.handler for delivery in messages(buffer)} for _ in range(2)] == [{"h"}, {"other"}]


def test_batches_are_whole_though_the_channels_in_between_have_another_handler(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1, together=3)
    of_h = [*deliveries(2, channel="a"), *deliveries(2, channel="c")]
    buffer.put([of_h[0], *deliveries(3, channel="b", handler="other"), *of_h[1:]], MANY)
    assert [messages(buffer) for _ in range(3)] == [
        [of_h[0], of_h[2], of_h[1]],
        deliveries(3, channel="b", handler="other"),
        [of_h[3]],
    ]


def test_messages_that_were_not_started_come_back_when_the_buffer_is_closed(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1)
    waiting = deliveries(3)
    buffer.put(waiting, MANY)
    buffer.take()
    assert buffer.close() == waiting[1:]
    assert buffer.wait() is None


def test_a_lost_message_is_dropped_once_and_only_that_one(make: Callable[..., Buffer]) -> None:
    buffer = make(concurrency=1)
    lost, again = DELIVERY, replace(DELIVERY, attempt=2)
    buffer.put([lost, again], MANY)
    assert (buffer.drop(lost), buffer.drop(lost)) == (True, False)
    assert messages(buffer) == [again]


class TestLimited:
    """Messages of a handler with `concurrency`."""

    @pytest.fixture
    def limited(self, register: Callable[..., None]) -> Callable[..., Buffer]:
        def limited(concurrency: int = 1, *, keep: bool = False, together: int | None = None) -> Buffer:
            register("limited", lambda delivery: None, concurrency=concurrency, batch=together)
            register("h", lambda delivery: None)
            return Buffer(20, 1000, keep=keep, held=(), wake=lambda: None)

        return limited

    def messages(self, count: int) -> list[Delivery]:
        return [replace(DELIVERY, id=number, handler="limited") for number in range(count)]

    def test_twice_as_many_stay_as_may_run(self, limited: Callable[..., Buffer]) -> None:
        buffer = limited(3)
        back = buffer.put([*self.messages(10), DELIVERY], MANY)
        assert [delivery.id for surplus in back.values() for delivery in surplus] == [6, 7, 8, 9]
        assert buffer.full() == ["limited"]
        taken = [buffer.take() for _ in range(5)]
        assert [found and found[1][0].id for found in taken] == [0, 1, 2, DELIVERY.id, None]
        assert buffer.unstarted == 3

    def test_the_more_go_back_the_longer_they_stay_away(self, limited: Callable[..., Buffer]) -> None:
        buffer = limited()
        assert buffer.put(self.messages(2), MANY) == {}
        run(buffer, 2.0)
        assert buffer.put(self.messages(1), MANY) == {}
        assert list(buffer.put(self.messages(5), MANY)) == [2, 4, 6, 8, 10]
        assert max(buffer.put(self.messages(100), MANY)) == LONGEST_DELAY_SECONDS

    def test_the_first_batch_counts_by_its_messages(self, limited: Callable[..., Buffer]) -> None:
        buffer = limited(together=10)
        buffer.put(self.messages(10), MANY)
        run(buffer, 0.01)
        assert buffer.put(self.messages(100), MANY) == {}, "a message takes 0.001 s, so 10 × 20 may wait here"

    def test_a_worker_that_works_everything_off_keeps_all(self, limited: Callable[..., Buffer]) -> None:
        assert limited(keep=True).put(self.messages(10), MANY) == {}

    def test_a_lost_message_makes_room(self, limited: Callable[..., Buffer]) -> None:
        buffer = limited()
        first, second, third = self.messages(3)
        buffer.put([first, second], MANY)
        assert (buffer.take()[1], buffer.take()) == ([first], None)
        assert (buffer.drop(second), buffer.drop(second)) == (True, False)
        assert buffer.put([third], MANY) == {}

    def test_only_what_matches_is_withdrawn(self, limited: Callable[..., Buffer]) -> None:
        buffer = limited()
        first, second, third = self.messages(3)
        buffer.put([first, second], MANY)
        buffer.put([DELIVERY], MANY)
        assert [buffer.take()[1] for _ in range(2)] == [[first], [DELIVERY]], "the second one is parked on the way"
        assert buffer.withdraw(lambda delivery: delivery.id == third.id) == []
        assert buffer.withdraw(lambda delivery: delivery.id == second.id) == [second]
        assert buffer.unstarted == 0

    def test_the_next_one_starts_when_a_call_ends(self, limited: Callable[..., Buffer]) -> None:
        buffer = limited()
        first, second = self.messages(2)
        buffer.put([first, second], MANY)
        handler, _ = buffer.take()
        assert buffer.take() is None
        buffer.finished(handler, 1, 0.1)
        assert messages(buffer) == [second]


def test_messages_of_a_handler_wait_while_it_is_held_and_then_start_in_their_order(
    register: Callable[..., None],
) -> None:
    register("guarded", lambda delivery: None)
    register("h", lambda delivery: None)
    held = {"guarded": {1}}
    buffer = Buffer(10, 10, keep=False, held=held, wake=lambda: None)
    second, third = (replace(DELIVERY, id=number, handler="guarded") for number in (2, 3))
    buffer.put([second, DELIVERY, third], MANY)
    assert (messages(buffer), buffer.take(), buffer.unstarted) == ([DELIVERY], None, 2)
    held.clear()
    buffer.resume()
    assert [messages(buffer) for _ in range(2)] == [[second], [third]]
