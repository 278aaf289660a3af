"""Limits of a whole queue, and strict order, in the simulation: small cases that can be computed by hand."""

from __future__ import annotations

import pytest

from django_pgqueue.spark.simulate.engine import Simulation, SimulationResult
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import Change, ChannelLimits, QueueLimits
from tests.spark.simulate.test_engine import message


def serve(
    messages: list[SimulatedMessage], queue: QueueLimits, slots: int = 8, ahead: int = 0, **limits: ChannelLimits
) -> tuple[dict[int, int], SimulationResult]:
    """Return the waits of the messages, in the order of service, and the result."""
    waits: dict[int, int] = {}
    simulation = Simulation(
        limits, slots, lambda served, waited: waits.update({served.id: waited}), ahead=ahead, queue=queue
    )
    return waits, simulation.run(messages)


@pytest.mark.parametrize("ahead", [0, 100])
def test_no_more_messages_run_at_once_than_the_queue_allows(ahead: int) -> None:
    messages = [message(number, "ab"[number % 2]) for number in range(6)]
    waits, result = serve(messages, QueueLimits(max_concurrency=2), ahead=ahead)
    assert [waits[number] for number in range(6)] == [0, 0, 10, 10, 20, 20]
    assert (result.ended_at, result.left) == (30, {})


def test_the_channels_of_a_queue_at_its_limit_take_turns() -> None:
    backlog = [message(number, "a") for number in range(5)]
    waits, _ = serve([*backlog, message(9, "b", at=5)], QueueLimits(max_concurrency=1))
    assert waits == {0: 0, 9: 5, 1: 20, 2: 30, 3: 40, 4: 50}


def test_a_rate_of_the_queue_spaces_the_messages_of_all_channels() -> None:
    messages = [message(number, "ab"[number % 2]) for number in range(5)]
    waits, result = serve(messages, QueueLimits(release_interval=100))
    assert sorted(waits.values()) == [0, 100, 200, 300, 400]
    assert result.ended_at == 410
    waits, _ = serve(messages, QueueLimits(release_interval=100, release_burst=3))
    assert sorted(waits.values()) == [0, 0, 0, 100, 200]


def test_a_burst_is_saved_up_while_nothing_comes() -> None:
    messages = [message(number, at=0 if number < 2 else 1_000) for number in range(5)]
    waits, _ = serve(messages, QueueLimits(release_interval=100, release_burst=2))
    assert [waits[number] for number in range(5)] == [0, 0, 0, 0, 100]


def test_an_ordered_channel_waits_for_the_message_that_failed() -> None:
    failing = message(1, runs=(10, 10), pauses=(50,))
    messages = [failing, message(2), message(3, "b")]
    loose, _ = serve(messages, QueueLimits(), a=ChannelLimits(max_concurrency=1))
    assert loose == {3: 0, 2: 10, 1: 0}  # message 2 goes first; message 1 is due again at 60
    strict, result = serve(messages, QueueLimits(), a=ChannelLimits(ordered=True))
    assert strict == {3: 0, 1: 60, 2: 70}  # as in the archive, its wait counts from when it was first due
    assert result.left == {}


def test_a_more_urgent_message_does_not_overtake_one_that_holds_its_channel() -> None:
    messages = [message(1, runs=(10, 10), pauses=(50,)), message(2, at=20, rank=-5)]
    waits, _ = serve(messages, QueueLimits(), a=ChannelLimits(ordered=True))
    assert list(waits) == [1, 2]


def test_an_ordered_channel_runs_one_message_at_a_time() -> None:
    waits, _ = serve([message(number) for number in range(3)], QueueLimits(), a=ChannelLimits(ordered=True))
    assert waits == {0: 0, 1: 10, 2: 20}


def test_limits_of_the_queue_and_order_are_read_from_options() -> None:
    assert Change.parse("a.ordered=yes") == Change("a", "ordered", True)
    found = QueueLimits.parse(["max_concurrency=8", "release_interval=500ms", "release_burst=3"])
    assert found == QueueLimits(8, 500_000, 3)
    for text in ("weight=2", "max_concurrency", "max_concurrency=0"):
        with pytest.raises(ValueError, match="max_concurrency"):
            QueueLimits.parse([text])
