"""Sparse tenants first: a channel that comes back after its place has passed is served first, once in a round."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.sessions import Session
from tests.support.verbs import dequeue, enqueue, fill, make_channel, settle, tick

HEAVY = 40


@pytest.fixture
def heavy(session: Session) -> list[str]:
    """Channels with a backlog that never ends, and a round behind them: none of them is new to the line."""
    names = [f"heavy{place:02}" for place in range(HEAVY)]
    for name in names:
        make_channel(session, name)
        fill(session, name, 200)
    tick(session, 3)
    served(session, 3 * HEAVY)
    return names


def served(session: Session, calls: int, limit: int = 1) -> list[str]:
    return [lease.channel for _ in range(calls) for lease in dequeue(session, limit)]


def until(session: Session, name: str, limit: int = 1) -> int:
    """How many calls until one has a message of the channel."""
    return next(call for call in range(1, 20 * HEAVY) if name in served(session, 1, limit))


@pytest.mark.parametrize("limit", [1, 10])
def test_a_channel_that_was_empty_is_served_by_the_next_dequeue(session: Session, heavy: list[str], limit: int) -> None:
    make_channel(session, "light")
    for _ in range(5):
        enqueue(session, "light")
        assert until(session, "light", limit) == 1
        served(session, 2 * HEAVY // limit + 2, limit)


def test_it_has_one_turn_before_the_others_in_a_round(session: Session, heavy: list[str]) -> None:
    """A message that comes within the round waits in line, like every other."""
    make_channel(session, "light")
    enqueue(session, "light")
    assert until(session, "light") == 1
    enqueue(session, "light")
    assert HEAVY - 1 <= until(session, "light") <= HEAVY + 1


def test_a_backlog_is_served_once_before_the_others(session: Session, heavy: list[str]) -> None:
    make_channel(session, "light")
    fill(session, "light", 100)
    order = served(session, 3 * HEAVY)
    assert order[0] == "light"
    assert [order.count("light"), *set(Counter(order[1 : HEAVY + 1]).values())] == [3, 1]


def test_many_light_channels_leave_the_heavy_ones_their_turns(session: Session, heavy: list[str]) -> None:
    """Each of them sends whenever its last message has been served, and is first once in a round at most."""
    light = [f"light{place:02}" for place in range(HEAVY)]
    for name in light:
        make_channel(session, name)
        enqueue(session, name)
    order: list[str] = []
    for _ in range(8 * HEAVY):
        leases = dequeue(session)
        settle(session, leases)
        order += [lease.channel for lease in leases]
        for lease in leases:
            if lease.channel in light:
                enqueue(session, lease.channel)
    counts = Counter(order)
    # Every channel has its share of the rounds, with one more at the beginning for those that were new.
    assert min(counts[name] for name in heavy) >= 3
    assert max(counts[name] for name in light) <= 5


def test_a_lane_that_others_hold_keeps_its_place(session: Session, heavy: list[str], business: Session) -> None:
    """While the head of the line stands still in an open transaction, no place has passed: the order is round robin."""
    held = dequeue(business)[0].channel
    make_channel(session, "light")
    enqueue(session, "light")
    assert until(session, "light") == 1  # it never had a place
    served(session, 2 * HEAVY)
    enqueue(session, "light")
    assert until(session, "light") > 1
    business.rollback()
    assert held in heavy
