"""The backlog: how much a worker takes, and what it does not start."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker.backlog import LONGEST_DELAY_SECONDS, Backlog
from tests.support.deliveries import DELIVERY
from tests.support.waiting import eventually


def deliveries(count: int, **fields: object) -> list[Delivery]:
    return [replace(DELIVERY, id=number, **fields) for number in range(1, count + 1)]


# More messages than any of these tests has.
MANY = 1000


def run(backlog: Backlog, seconds: float) -> None:
    handler, taken = backlog.take()
    backlog.finished(handler, len(taken), seconds)


def messages(backlog: Backlog) -> list[Delivery]:
    return backlog.wait()[1]


@pytest.fixture
def make(register: Callable[..., None]) -> Callable[..., Backlog]:
    def make(concurrency: int = 4, batch: int = 50, together: int | None = None) -> Backlog:
        for name in ("h", "other"):
            register(name, lambda delivery: None, batch=together)
        return Backlog(concurrency, batch, keep=False, held=(), wake=lambda: None)

    return make


def test_before_the_pace_is_known_it_takes_what_the_slots_can_start(make: Callable[..., Backlog]) -> None:
    assert make(concurrency=4).room() == 4


def test_fast_handlers_get_messages_ahead_in_batches(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=4, batch=10)
    backlog.put(deliveries(4), MANY)
    run(backlog, 0.001)
    # 44 are wanted; 3 wait. A dequeue is worth it, of a batch at most.
    assert backlog.room() == 10
    backlog.put(deliveries(38), MANY)
    assert backlog.room() == 0, "too little room for another dequeue"


def test_slow_handlers_get_nothing_ahead(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=2)
    backlog.put(deliveries(2), MANY)
    taken = [backlog.take(), backlog.take()]
    assert (None not in taken, backlog.room()) == (True, 0)
    backlog.finished(taken[0][0], 1, 5.0)
    assert backlog.room() == 1


def test_a_channel_that_has_nothing_here_waits_for_one_message_of_another_channel(make: Callable[..., Backlog]) -> None:
    """A limit may let it have one message at a time; the others have more."""
    backlog = make(concurrency=1)
    ahead = deliveries(5, channel="busy")
    limited = [replace(DELIVERY, id=number, channel="limited") for number in (6, 7)]
    backlog.put(ahead, MANY)
    assert messages(backlog) == [ahead[0]]
    backlog.put(limited, MANY)
    assert [messages(backlog) for _ in range(6)] == [
        [message] for message in (ahead[1], limited[0], ahead[2], limited[1], *ahead[3:])
    ]


def test_a_message_starts_however_many_channels_come_after_it(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=1)
    first, second = deliveries(2, channel="patient")
    backlog.put([first, second], MANY)
    started = []
    for number in range(3, 10):
        backlog.put([replace(DELIVERY, id=number, channel=f"new {number}")], MANY)
        started.append(messages(backlog))
    assert started.index([second]) <= 2, "after the one message of each channel that came before its turn"


def test_a_free_slot_gets_a_whole_batch_when_the_calls_before_took_batches(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=2, batch=100, together=30)
    assert backlog.room() == 2, "it may be of another handler"
    for _ in range(8):
        backlog.put(deliveries(2), MANY)
        run(backlog, 5.0)
    assert backlog.room() == 60
    backlog.put(deliveries(60), MANY)
    assert [len(messages(backlog)) for _ in range(2)] == [30, 30]
    assert backlog.room() == 0, "both slots run, for long"


def test_a_batch_leaves_work_to_the_other_slots(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=2, together=50)
    with ThreadPoolExecutor(2) as slots:
        taken = [slots.submit(messages, backlog) for _ in range(2)]
        eventually(lambda: backlog._idle == 2, problem="they do not both wait for work")
        backlog.put(deliveries(40), MANY)
        assert [len(future.result()) for future in taken] == [20, 20]


def test_a_batch_is_whole_while_the_other_slots_are_busy(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=4, together=30)
    backlog.put(deliveries(40), MANY)
    assert [len(messages(backlog)) for _ in range(2)] == [30, 10]


def test_a_batch_is_of_one_handler(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=1, together=50)
    backlog.put([*deliveries(3), *deliveries(2, handler="other")], MANY)
    assert [{delivery.handler for delivery in messages(backlog)} for _ in range(2)] == [{"h"}, {"other"}]


def test_batches_are_whole_though_the_channels_in_between_have_another_handler(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=1, together=3)
    of_h = [*deliveries(2, channel="a"), *deliveries(2, channel="c")]
    backlog.put([of_h[0], *deliveries(3, channel="b", handler="other"), *of_h[1:]], MANY)
    assert [messages(backlog) for _ in range(3)] == [
        [of_h[0], of_h[2], of_h[1]],
        deliveries(3, channel="b", handler="other"),
        [of_h[3]],
    ]


def test_messages_that_were_not_started_come_back_when_the_backlog_is_closed(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=1)
    waiting = deliveries(3)
    backlog.put(waiting, MANY)
    backlog.take()
    assert backlog.close() == waiting[1:]
    assert backlog.wait() is None


def test_a_lost_message_is_dropped_once_and_only_that_one(make: Callable[..., Backlog]) -> None:
    backlog = make(concurrency=1)
    lost, again = DELIVERY, replace(DELIVERY, attempt=2)
    backlog.put([lost, again], MANY)
    assert (backlog.drop(lost), backlog.drop(lost)) == (True, False)
    assert messages(backlog) == [again]


class TestLimited:
    """Messages of a handler with `concurrency`."""

    @pytest.fixture
    def limited(self, register: Callable[..., None]) -> Callable[..., Backlog]:
        def limited(concurrency: int = 1, *, keep: bool = False, together: int | None = None) -> Backlog:
            register("limited", lambda delivery: None, concurrency=concurrency, batch=together)
            register("h", lambda delivery: None)
            return Backlog(20, 1000, keep=keep, held=(), wake=lambda: None)

        return limited

    def messages(self, count: int) -> list[Delivery]:
        return [replace(DELIVERY, id=number, handler="limited") for number in range(count)]

    def test_twice_as_many_stay_as_may_run(self, limited: Callable[..., Backlog]) -> None:
        backlog = limited(3)
        back = backlog.put([*self.messages(10), DELIVERY], MANY)
        assert [delivery.id for surplus in back.values() for delivery in surplus] == [6, 7, 8, 9]
        assert backlog.full() == ["limited"]
        taken = [backlog.take() for _ in range(5)]
        assert [found and found[1][0].id for found in taken] == [0, 1, 2, DELIVERY.id, None]
        assert backlog.unstarted == 3

    def test_the_more_go_back_the_longer_they_stay_away(self, limited: Callable[..., Backlog]) -> None:
        backlog = limited()
        assert backlog.put(self.messages(2), MANY) == {}
        run(backlog, 2.0)
        assert backlog.put(self.messages(1), MANY) == {}
        assert list(backlog.put(self.messages(5), MANY)) == [2, 4, 6, 8, 10]
        assert max(backlog.put(self.messages(100), MANY)) == LONGEST_DELAY_SECONDS

    def test_the_first_batch_counts_by_its_messages(self, limited: Callable[..., Backlog]) -> None:
        backlog = limited(together=10)
        backlog.put(self.messages(10), MANY)
        run(backlog, 0.01)
        assert backlog.put(self.messages(100), MANY) == {}, "a message takes 0.001 s, so 10 × 20 may wait here"

    def test_a_worker_that_works_everything_off_keeps_all(self, limited: Callable[..., Backlog]) -> None:
        assert limited(keep=True).put(self.messages(10), MANY) == {}

    def test_a_lost_message_makes_room(self, limited: Callable[..., Backlog]) -> None:
        backlog = limited()
        first, second, third = self.messages(3)
        backlog.put([first, second], MANY)
        assert (backlog.take()[1], backlog.take()) == ([first], None)
        assert (backlog.drop(second), backlog.drop(second)) == (True, False)
        assert backlog.put([third], MANY) == {}

    def test_only_what_matches_is_withdrawn(self, limited: Callable[..., Backlog]) -> None:
        backlog = limited()
        first, second, third = self.messages(3)
        backlog.put([first, second], MANY)
        backlog.put([DELIVERY], MANY)
        assert [backlog.take()[1] for _ in range(2)] == [[first], [DELIVERY]], "the second one is parked on the way"
        assert backlog.withdraw(lambda delivery: delivery.id == third.id) == []
        assert backlog.withdraw(lambda delivery: delivery.id == second.id) == [second]
        assert backlog.unstarted == 0

    def test_the_next_one_starts_when_a_call_ends(self, limited: Callable[..., Backlog]) -> None:
        backlog = limited()
        first, second = self.messages(2)
        backlog.put([first, second], MANY)
        handler, _ = backlog.take()
        assert backlog.take() is None
        backlog.finished(handler, 1, 0.1)
        assert messages(backlog) == [second]


def test_messages_of_a_handler_wait_while_it_is_held_and_then_start_in_their_order(
    register: Callable[..., None],
) -> None:
    register("guarded", lambda delivery: None)
    register("h", lambda delivery: None)
    held = {"guarded": {1}}
    backlog = Backlog(10, 10, keep=False, held=held, wake=lambda: None)
    second, third = (replace(DELIVERY, id=number, handler="guarded") for number in (2, 3))
    backlog.put([second, DELIVERY, third], MANY)
    assert (messages(backlog), backlog.take(), backlog.unstarted) == ([DELIVERY], None, 2)
    held.clear()
    backlog.resume()
    assert [messages(backlog) for _ in range(2)] == [[second], [third]]
