"""The simulated line: small cases whose outcome can be computed by hand, and laws that hold for any."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_pgqueue.spark.simulate.engine import Simulation, SimulationResult
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import ChannelLimits


def message(number: int, channel: str = "a", at: int = 0, run: int = 10, **more: Any) -> SimulatedMessage:
    return SimulatedMessage(
        **{"id": number, "channel": channel, "rank": 0, "arrives_at": at, "due_at": at, "runs": (run,)} | more
    )


def serve(
    messages: list[SimulatedMessage], slots: int = 1, ahead: int = 0, **limits: ChannelLimits
) -> tuple[dict[int, int], SimulationResult]:
    """When the last attempt of each message began, in the order of service, and the result."""
    began: dict[int, int] = {}

    def record(served: SimulatedMessage, waited: int) -> None:
        assert served.id not in began
        last_due = served.due_at if not served.pauses else None
        began[served.id] = waited if last_due is None else last_due + waited

    return began, Simulation(limits, slots, record, ahead=ahead).run(messages)


def test_one_slot_serves_one_after_the_other():
    began, result = serve([message(1), message(2, at=3), message(3, at=40)])
    assert began == {1: 0, 2: 10, 3: 40}
    assert (result.busy, result.ended_at, result.left) == (30, 50, {})


def test_channels_take_turns():
    backlog = [message(n, "a") for n in range(5)]
    began, _ = serve([*backlog, message(9, "b")])
    assert list(began) == [0, 9, 1, 2, 3, 4]


def test_a_message_starts_before_the_others_once_in_a_round():
    backlog = [message(n, "a") for n in range(100)]
    began, _ = serve([*backlog, message(900, "b", at=55), message(901, "b", at=62), message(902, "b", at=105)])
    assert began[900] == 60  # it never had a place
    assert began[901] == 80  # its place has not passed: one of a stands before it
    assert began[902] == 110


def test_turns_follow_the_weights():
    messages = [message(n, "ab"[n % 2]) for n in range(16)]
    began, _ = serve(messages, a=ChannelLimits(weight=3), b=ChannelLimits(weight=1))
    assert ["ab"[n % 2] for n in began][:8] == list("aaabaaab")


def test_capacity_that_becomes_free_at_once_is_shared_by_weight():
    messages = [message(n, "ab"[n % 2]) for n in range(40)]
    began, _ = serve(messages, slots=8, a=ChannelLimits(weight=3), b=ChannelLimits(weight=1))
    assert Counter("ab"[n % 2] for n, at in began.items() if at == 0) == {"a": 6, "b": 2}


def test_a_channel_at_its_limit_leaves_the_slots_to_others():
    messages = [message(n, "a") for n in range(3)] + [message(n, "b") for n in range(10, 13)]
    began, _ = serve(messages, slots=4, a=ChannelLimits(max_concurrency=1))
    assert [began[n] for n in range(3)] == [0, 10, 20]
    assert [began[n] for n in range(10, 13)] == [0, 0, 0]


def test_messages_of_a_channel_at_its_limit_wait_for_a_place():
    began, _ = serve([message(1), message(2, at=4)], slots=4, a=ChannelLimits(max_concurrency=1))
    assert began == {1: 0, 2: 10}


def test_a_rate_has_its_burst_and_then_its_interval():
    began, _ = serve(
        [message(n, run=1) for n in range(5)], slots=9, a=ChannelLimits(release_interval=10, release_burst=2)
    )
    assert list(began.values()) == [0, 0, 10, 20, 30]


def test_a_burst_comes_back_with_quiet_time():
    limits = ChannelLimits(release_interval=10, release_burst=3)
    times = [0, 0, 0, 0, 100, 100, 100, 100]
    began, _ = serve([message(n, at=at, run=1) for n, at in enumerate(times)], slots=9, a=limits)
    assert list(began.values()) == [0, 0, 0, 10, 100, 100, 100, 110]


def test_a_rate_and_a_limit_hold_together():
    limits = ChannelLimits(max_concurrency=1, release_interval=15)
    began, _ = serve([message(n, run=run) for n, run in enumerate([40, 5, 5])], slots=9, a=limits)
    assert began == {0: 0, 1: 40, 2: 55}


def test_higher_priority_first_then_the_earlier_then_the_smaller_id():
    messages = [
        message(5, due_at=-2),
        message(6, due_at=-3),
        message(7, rank=-1, due_at=0),
        message(8, due_at=-3),
    ]
    began, _ = serve(messages)
    assert list(began) == [7, 6, 8, 5]


def test_a_failed_attempt_frees_its_slot_while_it_pauses():
    failing = message(1, runs=(10, 5), pauses=(100,))
    waits: dict[int, int] = {}
    result = Simulation({}, 1, lambda served, waited: waits.update({served.id: waited})).run(
        [failing, message(2, at=1, run=30), message(3, at=109, run=20)]
    )
    # It is due again at 110, and number 3 runs until 129.
    assert waits == {2: 9, 3: 0, 1: 19}
    assert (result.busy, result.ended_at) == (65, 134)


def test_a_paused_channel_and_one_without_a_place_are_left():
    messages = [message(1, "a"), message(2, "b"), message(3, "c")]
    began, result = serve(messages, slots=3, a=ChannelLimits(paused=True), b=ChannelLimits(max_concurrency=0))
    assert began == {3: 0}
    assert result.left == {"a": 1, "b": 1}


def test_no_time_passes_in_a_run_of_no_length():
    began, result = serve([message(n, run=0) for n in range(3)], a=ChannelLimits(max_concurrency=1))
    assert list(began.values()) == [0, 0, 0]
    assert result.ended_at == 0


def test_messages_are_leased_ahead_of_their_handlers():
    # A handler of 50 ms: four of them keep a slot busy for the 0.2 seconds that a worker leases ahead.
    messages = [message(n, run=50_000, started=False) for n in range(20)]
    leased, result = serve(messages, ahead=100)
    assert [n for n, at in leased.items() if at == 50_000] == [1, 2, 3, 4, 5]
    assert (leased[19] < 19 * 50_000, result.ended_at) == (True, 20 * 50_000)


def test_a_wait_ends_when_the_handler_starts_and_not_at_the_lease():
    began, _ = serve([message(n, run=50_000) for n in range(20)], ahead=100)
    assert began == {n: n * 50_000 for n in range(20)}


def test_messages_that_wait_in_memory_take_a_place_of_their_channel():
    messages = [message(n, "ab"[n % 2], run=50_000) for n in range(20)]
    began, _ = serve(messages, ahead=100, a=ChannelLimits(max_concurrency=1))
    leases = sorted(at for n, at in began.items() if n % 2 == 0)
    assert all(later - earlier >= 50_000 for earlier, later in pairwise(leases))


LIMITS = st.builds(
    ChannelLimits,
    max_concurrency=st.none() | st.integers(1, 3),
    release_interval=st.none() | st.integers(1, 20),
    release_burst=st.integers(1, 4),
    weight=st.integers(1, 4),
)


@settings(max_examples=150, deadline=None)
@given(limits=st.lists(LIMITS, min_size=1, max_size=4), slots=st.integers(1, 6), seed=st.integers(0, 9999))
def test_no_limit_is_broken_and_everything_runs_once(limits: list[ChannelLimits], slots: int, seed: int):
    chance = random.Random(seed)
    named = {f"c{n}": each for n, each in enumerate(limits)}
    messages = [
        message(n, chance.choice(list(named)), at=at, run=chance.randrange(30), rank=chance.randrange(3))
        for n, at in enumerate(sorted(chance.randrange(60) for _ in range(40)))
    ]
    began, result = serve(messages, slots, **named)
    assert result.left == {}
    assert sorted(began) == list(range(40))
    runs = [(began[m.id], began[m.id] + m.runs[0], m.channel) for m in messages]
    assert all(start >= m.arrives_at for (start, _, _), m in zip(runs, messages, strict=True))
    for at, _, channel in runs:
        running = [c for start, end, c in runs if start <= at < end]
        assert len(running) <= slots
        assert named[channel].max_concurrency is None or running.count(channel) <= named[channel].max_concurrency
    for name, each in named.items():
        if each.release_interval:
            starts = sorted(start for start, _, channel in runs if channel == name)
            for first, later in zip(starts, starts[each.release_burst :], strict=False):
                assert later - first >= each.release_interval
    # Work conserving: if a message without limits waits, every slot is taken. A waiting one would have taken it.
    for m, (start, _, _) in zip(messages, runs, strict=True):
        if not named[m.channel].limited:
            for moment in range(m.arrives_at, start):
                assert sum(a <= moment < b for a, b, _ in runs) == slots


@pytest.mark.parametrize("channels", [1, 1000])
def test_a_backlog_of_many_channels_costs_no_more_than_one_of_one(channels: int):
    messages = [message(n, f"c{n % channels}", run=95) for n in range(20_000)]
    limits = {f"c{n}": ChannelLimits(max_concurrency=2, weight=2) for n in range(0, channels, 3)}
    began, _ = serve(messages, slots=10, **limits)
    assert len(began) == 20_000
