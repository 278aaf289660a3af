"""Round robin is exact: each channel gets its weighted part within one turn, whatever the calls take."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.engine import Engine

# A turn of a call for many is this many times the weight of the channel, at most: its limit over the weights.
CALLS = st.lists(st.integers(1, 20), min_size=1, max_size=6)


def begin(engine: Engine, weights: list[int], messages: int) -> None:
    engine.session.execute("TRUNCATE pgqueue_message, pgqueue_lane, pgqueue_note, pgqueue_channel")
    engine.session.execute("SELECT setval(line, 0), setval(pass, 0) FROM pgqueue_queue")
    for place, weight in enumerate(weights):
        engine.channel(f"c{place}", weight=weight)
        engine.fill(f"c{place}", messages * weight)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(weights=st.lists(st.integers(1, 6), min_size=1, max_size=12), calls=CALLS, consumers=st.integers(1, 3))
def test_each_channel_has_its_part_within_one_turn(
    engine: Engine, weights: list[int], calls: list[int], consumers: int
) -> None:
    begin(engine, weights, 900 // sum(weights) + 40)
    sessions = [engine.session, *(engine.sessions() for _ in range(consumers - 1))]
    got: Counter[str] = Counter()
    most = -(-max(calls) // min(sum(weights[:16]), max(calls)))
    for call in range(40):
        leases = engine.dequeue(calls[call % len(calls)], session=sessions[call % consumers])
        assert len(leases) == calls[call % len(calls)]
        got.update(lease.channel for lease in leases)
        for place, weight in enumerate(weights):
            wanted = got.total() * weight / sum(weights)
            assert abs(got[f"c{place}"] - wanted) <= weight * most
    for session in sessions[1:]:
        session.close()


@pytest.mark.parametrize(
    ("weights", "limit"), [((2, 1), 2), ((2, 1), 5), ((1, 1), 3), ((1, 1, 1), 7), ((1,) * 15, 100)]
)
def test_a_call_that_cuts_a_turn_leaves_the_rest_to_the_next_call(
    engine: Engine, weights: tuple[int, ...], limit: int
) -> None:
    begin(engine, list(weights), 1000)
    rounds = sum(weights) * 6
    got = engine.served(rounds, limit)
    for place, weight in enumerate(weights):
        assert abs(got[f"c{place}"] - rounds * limit * weight / sum(weights)) <= weight * -(-limit // sum(weights))


def test_a_tenant_with_one_message_comes_before_those_with_a_backlog(engine: Engine) -> None:
    begin(engine, [1] * 20, 50)
    engine.served(7, 3)
    engine.channel("new")
    engine.enqueue("new")
    assert [lease.channel for lease in engine.dequeue(1)] == ["new"]


def test_a_channel_with_many_lanes_has_one_turn(engine: Engine) -> None:
    engine.channel("one")
    engine.channel("other")
    for number in range(4):
        engine.fill("one", 100, limits=[engine.limit(f"limit {number}", 1000)])
    engine.fill("other", 400)
    got = engine.served(100, 1)
    assert abs(got["one"] - got["other"]) <= 1


def test_a_channel_serves_its_most_urgent_message_first_whatever_its_lane(engine: Engine) -> None:
    engine.channel("one")
    limit = engine.limit("api", 10)
    low = engine.enqueue("one", priority=-1)
    plain = engine.enqueue("one")
    urgent = engine.enqueue("one", priority=3, limits=[limit])
    assert [engine.dequeue()[0].id for _ in range(3)] == [urgent, plain, low]
