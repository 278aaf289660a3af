"""Shared limits, cost and shares in the simulation: small cases that can be computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from django_pgqueue.spark.simulate.engine import Simulation, SimulationResult
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import Change, ChannelLimits, QueueLimits, SharedLimits
from tests.spark.simulate.test_engine import message


def serve(
    messages: list[SimulatedMessage],
    slots: int = 8,
    queue: QueueLimits | None = None,
    channels: dict[str, ChannelLimits] | None = None,
    **stripe: Any,
) -> tuple[dict[int, int], SimulationResult]:
    """Return the waits of the messages, in the order of service, and the result. ``stripe``: a shared limit."""
    waits: dict[int, int] = {}
    shared = [SharedLimits("stripe", **stripe)] if stripe else []
    simulation = Simulation(
        channels or {}, slots, lambda served, waited: waits.update({served.id: waited}), queue=queue, shared=shared
    )
    return waits, simulation.run(messages)


def limited(number: int, channel: str = "a", **more: Any) -> SimulatedMessage:
    return message(number, channel, shared=("stripe",), **more)


def test_no_more_messages_run_at_once_than_the_shared_limit_allows() -> None:
    waits, result = serve([limited(number, "ab"[number % 2]) for number in range(6)], max_concurrency=2)
    assert sorted(waits.values()) == [0, 0, 10, 10, 20, 20]
    assert result.left == {}


def test_a_message_that_waits_for_its_limit_holds_up_no_other() -> None:
    waits, _ = serve([*(limited(number) for number in range(3)), message(9)], max_concurrency=1)
    assert (waits[9], [waits[number] for number in range(3)]) == (0, [0, 10, 20])


def test_free_places_go_round_the_channels_by_weight() -> None:
    messages = [limited(number, "a") for number in range(4)] + [limited(number, "b") for number in range(10, 16)]
    waits, _ = serve(messages, channels={"b": ChannelLimits(weight=2)}, max_concurrency=1)
    assert list(waits) == [0, 1, 10, 11, 2, 12, 13, 3, 14, 15]


def test_a_new_message_waits_behind_those_that_wait() -> None:
    waits, _ = serve([*(limited(number) for number in range(3)), limited(9, "b", at=10)], max_concurrency=1)
    assert list(waits) == [0, 1, 9, 2]


def test_the_rate_of_a_shared_limit_counts_cost() -> None:
    messages = [limited(number, cost=cost) for number, cost in enumerate((60, 30, 20, 1))]
    waits, _ = serve(messages, release_interval=1_000, release_burst=100)
    assert waits == {0: 0, 1: 0, 2: 10_000, 3: 11_000}


def test_the_cost_in_flight_is_bounded() -> None:
    messages = [limited(number, cost=cost) for number, cost in enumerate((60, 60, 500))]
    waits, _ = serve(messages, max_cost=100)
    assert waits == {0: 0, 1: 10, 2: 20}


@pytest.mark.parametrize("of", ["channel", "queue"])
def test_the_rates_of_channels_and_queues_count_cost(of: str) -> None:
    messages = [message(number, cost=cost) for number, cost in enumerate((60, 30, 20, 1))]
    rate = {"release_interval": 1_000, "release_burst": 100}
    if of == "channel":
        waits, _ = serve(messages, channels={"a": ChannelLimits(**rate)})
    else:
        waits, _ = serve(messages, queue=QueueLimits(**rate))
    assert waits == {0: 0, 1: 0, 2: 10_000, 3: 11_000}


def test_an_ordered_channel_waits_with_its_message() -> None:
    messages = [limited(1, "b", run=1_500_000), limited(2, "a", at=1), message(3, "a", at=2)]
    waits, _ = serve(messages, channels={"a": ChannelLimits(ordered=True)}, max_concurrency=1)
    assert waits == {1: 0, 2: 1_499_999, 3: 1_500_008}


def test_a_channel_alone_leaves_the_slots_that_max_share_keeps() -> None:
    backlog = [message(number, "a", run=1_000) for number in range(20)]
    waits, _ = serve([*backlog, message(99, "b", at=5)], slots=4, queue=QueueLimits(max_share=0.75))
    assert sorted(waits.values())[:5] == [0, 0, 0, 0, 1_000]
    assert waits[99] == 0


def test_a_channel_that_holds_its_share_lets_others_go_first() -> None:
    """Messages of a take turns of 40 and more; each slot that gets free goes to b until it holds half."""
    backlog = [message(number, "a", run=100 + number) for number in range(12)]
    late = [message(number, "b", at=5, run=1_000) for number in range(20, 24)]
    by_turns, _ = serve([*backlog, *late], slots=4)
    by_share, _ = serve([*backlog, *late], slots=4, queue=QueueLimits(fairness="share"))
    assert list(by_turns)[4:8] == [20, 4, 21, 5]
    assert list(by_share)[4:8] == [20, 21, 4, 5]


def test_a_dead_letter_stops_an_ordered_channel_if_it_is_set_so() -> None:
    messages = [message(0, dies=True), message(1), message(2, "b")]
    for on_dead, left in (("continue", {}), ("pause", {"a": 1})):
        _, result = serve(messages, channels={"a": ChannelLimits(ordered=True, on_dead=on_dead)})
        assert result.left == left


def test_the_options_of_a_shared_limit_are_read() -> None:
    texts = ["api.v2.max_concurrency=2", "api.v2.handlers=charge,refund", "gpt.release_interval=10ms", "gpt.id=7"]
    assert SharedLimits.parse(texts) == (
        SharedLimits("api.v2", max_concurrency=2, handlers=("charge", "refund")),
        SharedLimits("gpt", release_interval=10_000, id=7),
    )
    first, second = SharedLimits.parse(texts)
    assert (first.has("charge", []), first.has("other", [7]), second.has("other", [7])) == (True, False, True)
    assert QueueLimits.parse(["fairness=share", "max_share=0.5"]) == QueueLimits(fairness="share", max_share=0.5)
    assert Change.parse("a.on_dead=pause") == Change("a", "on_dead", "pause")


@pytest.mark.parametrize("text", ["max_concurrency=2", "x.weight=2", "x.max_cost=0", "x.max_concurrency=2", "x.id="])
def test_an_option_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"shared limit|number"):
        SharedLimits.parse([text])


@pytest.mark.parametrize("text", ["fairness=fair", "max_share=2", "max_share=x", "weight=1"])
def test_an_option_of_a_queue_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is turns or share|above 0|no limit of a queue"):
        QueueLimits.parse([text])
