"""C6: channels share the line by their weights, whatever limits, pauses and locks do to some of them."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from tests.concurrency.test_fairness import messages_before
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, enqueue_many, fill, make_channel, settle, tick


@pytest.mark.parametrize("limit", [1, 10])
def test_a_hundred_channels_are_served_in_rotation(session: Session, limit: int) -> None:
    names = [f"channel{place:03}" for place in range(100)]
    for name in names:
        make_channel(session, name)
    enqueue_many(session, names * 6)
    tick(session, 3)
    order = [lease.channel for _ in range(500 // limit) for lease in dequeue(session, limit)]

    assert len(order) == 500
    for start in range(0, 500, 100):
        assert set(order[start : start + 100]) == set(names)


def test_a_large_call_serves_sixteen_lanes_or_so(session: Session) -> None:
    """A longer turn makes a large call cheap. No channel has a second one before all have had theirs."""
    names = [f"channel{place:03}" for place in range(100)]
    for name in names:
        make_channel(session, name)
    enqueue_many(session, names * 20)
    tick(session, 3)
    calls = [[lease.channel for lease in dequeue(session, 100)] for _ in range(7)]

    assert all(max(Counter(call).values()) == 7 and len(set(call)) in {15, 16} for call in calls)
    turns = [(name, len(list(taken))) for name, taken in groupby(name for call in calls for name in call)]
    assert len({name for name, _ in turns[:100]}) == 100
    # The next call begins with the part of a turn that a call's limit has cut off.
    assert {count for _, count in turns[:-1]} == {7}


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("limit", [1, 8])
def test_shares_follow_the_weights(session: Session, limit: int, limited: bool) -> None:
    more = {"max_concurrency": 10_000} if limited else {}
    make_channel(session, "three", weight=3, **more)
    make_channel(session, "one", weight=1, **more)
    fill(session, "three", 200)
    fill(session, "one", 200)

    shares = Counter(lease.channel for _ in range(160 // limit) for lease in dequeue(session, limit))

    assert shares == {"three": 120, "one": 40}


def test_tenants_at_their_limit_neither_slow_nor_hide_others(session: Session) -> None:
    for place in range(200):
        make_channel(session, f"full{place}", max_concurrency=1)
        make_channel(session, f"paused{place}")
        make_channel(session, f"slow{place}", release_interval="1 hour")
        session.execute("SELECT pgqueue_channel_pause('default', %s)", [f"paused{place}"])
    held = [f"{kind}{place}" for place in range(200) for kind in ("full", "paused", "slow")]
    enqueue_many(session, held * 2)
    tick(session, 15)
    while dequeue(session, 50):
        pass
    make_channel(session, "b")
    enqueue(session, "b")

    assert messages_before(session, "b", 1) == (1, 0)
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 2") == 401
    assert one(session, "SELECT count(*) FROM pgqueue_lane WHERE parked_until IS NULL") == 0


def test_after_a_tick_a_lane_whose_time_has_come_waits_one_round(session: Session) -> None:
    make_channel(session, "slow", release_interval="10 milliseconds")
    fill(session, "slow", 20)
    make_channel(session, "a")
    assert messages_before(session, "slow", 1)[1] == 0
    fill(session, "a", 5000)
    for _ in range(12):
        session.execute("SELECT pg_sleep(0.015)")
        tick(session)

        assert messages_before(session, "slow", 1)[1] <= 1


def test_channels_that_are_paused_while_they_stand_in_line_hide_no_other(session: Session) -> None:
    names = [f"paused{place}" for place in range(100)]
    for name in names:
        make_channel(session, name)
    enqueue_many(session, names)
    tick(session)
    for name in names:
        session.execute("SELECT pgqueue_channel_pause('default', %s)", [name])
    make_channel(session, "b")
    enqueue(session, "b")

    assert [lease.channel for lease in dequeue(session)] == ["b"]


def test_a_tenant_that_completes_at_once_gets_no_more_than_its_turn(session: Session) -> None:
    """Coming free does not move a channel to the head of the line."""
    make_channel(session, "quick", max_concurrency=1)
    for name in "abcd":
        make_channel(session, name)
    enqueue_many(session, ["quick", *"abcd"] * 30)
    order = []
    for _ in range(50):
        leases = dequeue(session, 1)
        settle(session, leases)
        order += [lease.channel for lease in leases]

    assert Counter(order) == {"quick": 10, "a": 10, "b": 10, "c": 10, "d": 10}


def test_channels_that_another_dequeue_holds_are_shared_alike(session: Session, business: Session) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        make_channel(session, name)
        fill(session, name, 100)
    assert len(dequeue(business, 4)) == 4

    leases = dequeue(session, 8)

    assert Counter(lease.channel for lease in leases) == dict.fromkeys(names, 2)


def test_one_channel_that_another_dequeue_holds_fills_the_limit(session: Session, business: Session) -> None:
    for name in ("a", "b"):
        make_channel(session, name)
    fill(session, "a", 100)
    enqueue(session, "b")
    assert len(dequeue(business, 3)) == 3

    assert len(dequeue(session, 8)) == 8


def test_news_of_a_channel_that_another_dequeue_holds_do_not_overtake(session: Session, business: Session) -> None:
    for name in [*"abcdefgh", "last"]:
        make_channel(session, name)
        fill(session, name, 10)
        tick(session)
    [first] = [lease for lease in dequeue(session, 9) if lease.channel == "last"]
    assert [lease.channel for lease in dequeue(business, 9)] == [*"abcdefgh", "last"]
    settle(session, [first], "defer", None, ["0"])

    # A call that begins at a random place of the line may leave this channel out, so there are several.
    taken = [lease.id for _ in range(5) for lease in dequeue(session, 9) if lease.channel == "last"]

    assert taken
    waiting = [*range(first.id + 2, first.id + 10), first.id]
    assert taken == waiting[: len(taken)]
