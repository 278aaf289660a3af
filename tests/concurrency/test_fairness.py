"""C6: round robin by weight.

The bound, as in docs/explanation/fairness.md: a new message of a channel that had none is delivered after at
most one turn of every other channel of its queue that has ready messages and may run. With dequeue(limit=1)
that is the sum of their weights in messages; with a limit that is not smaller than the number of these
channels it is the second call. How many messages they hold does not matter, nor how these were enqueued.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, settle, tick


def messages_before(session: Session, name: str, limit: int) -> tuple[int, int]:
    """Calls, and messages of other channels, before the first message of the channel."""
    before = 0
    for call in range(1, 1000):
        leases = dequeue(session, limit)
        names = [lease.channel for lease in leases]
        if name in names:
            return call, before + names.index(name)
        assert leases, f"nothing of {name}"
        before += len(leases)
    raise AssertionError(f"nothing of {name}")


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("weight", [1, 4])
def test_a_new_message_is_delivered_within_one_round(session: Session, limit: int, weight: int) -> None:
    make_channel(session, "a", weight=weight)
    make_channel(session, "b")
    fill(session, "a", 5000)
    dequeue(session, 3)
    for _ in range(3):
        enqueue(session, "b")

        calls, before = messages_before(session, "b", limit)

        assert before <= max(weight, limit)
        assert calls <= max(weight + 1 if limit == 1 else 2, 2)


def test_a_backlog_of_single_messages_delays_nobody(session: Session) -> None:
    """Nobody dequeued for a while: every statement has left an arrival of its own."""
    make_channel(session, "a")
    make_channel(session, "b")
    session.execute("SELECT count(pgqueue_enqueue('work', '{}', 'a')) FROM generate_series(1, 3000)")
    enqueue(session, "b")

    calls, before = messages_before(session, "b", 1)

    assert (calls, before) <= (2, 1)


FAVOURS: dict[str, dict[str, Any]] = {
    "priority": {"priority": 1},
    "an old dequeue_at": {"dequeue_at": "2020-01-01"},
    "both": {"priority": 32767, "dequeue_at": "2020-01-01"},
}


@pytest.mark.parametrize("favour", FAVOURS)
@pytest.mark.parametrize("ticks", [False, True])
def test_a_message_cannot_put_its_channel_before_others(session: Session, favour: str, ticks: bool) -> None:
    """Priority and dequeue_at order the messages of one channel; the line orders the channels."""
    make_channel(session, "a")
    make_channel(session, "b")
    waiting = enqueue(session, "b")
    for calls in range(1, 10):
        enqueue(session, "a", **FAVOURS[favour])
        if ticks and calls % 2:
            tick(session)
        [lease] = dequeue(session)
        settle(session, [lease])
        if lease.id == waiting:
            break

    assert calls <= 2


@pytest.mark.parametrize("favour", FAVOURS)
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_favoured_messages_of_some_channels_leave_the_others_their_turns(
    session: Session, favour: str, limit: int
) -> None:
    """Messages come one by one, as many as are taken."""
    loud, quiet = ["a", "b", "c"], ["d", "e"]
    for name in loud + quiet:
        make_channel(session, name)
    waiting = {enqueue(session, name) for name in quiet}
    served: Counter[str] = Counter()
    while waiting:
        for place in range(limit):
            enqueue(session, loud[place % len(loud)], **FAVOURS[favour])
        leases = dequeue(session, limit)
        settle(session, leases)
        served += Counter(lease.channel for lease in leases)
        waiting -= {lease.id for lease in leases}
        assert all(served[name] <= 2 * limit for name in loud), served


@pytest.mark.parametrize("limit", [1, 10])
def test_a_few_single_messages_of_one_channel_delay_no_other(session: Session, limit: int) -> None:
    """Fewer than stand in line as lanes at once: each statement has left an arrival of its own."""
    make_channel(session, "a")
    make_channel(session, "b")
    for _ in range(15):
        enqueue(session, "a", priority=1)
    enqueue(session, "b")

    calls, before = messages_before(session, "b", limit)

    assert (calls, before) <= (2 if limit == 1 else 1, limit)


def test_a_batch_takes_the_share_of_one_channel_after_the_other(session: Session) -> None:
    for name in ("a", "b"):
        make_channel(session, name)
    first, second, third = (enqueue(session, "a", priority=priority) for priority in (1, 3, 2))
    other = enqueue(session, "b")

    assert [lease.id for lease in dequeue(session, 10)] == [second, third, first, other]


def test_a_backlog_in_another_queue_delays_nobody(session: Session) -> None:
    make_channel(session, "a", "other")
    make_channel(session, "b")
    session.execute("SELECT count(pgqueue_enqueue('work', '{}', 'a', 'other')) FROM generate_series(1, 1000)")
    enqueue(session, "b")

    assert messages_before(session, "b", 1) == (1, 0)


@pytest.mark.parametrize(("channels", "calls"), [(3, 40), (20, 3000)])
def test_channels_that_another_dequeue_holds_are_all_served(
    session: Session, business: Session, channels: int, calls: int
) -> None:
    """Their lanes keep their places meanwhile: the order of the line would serve the first until it is empty."""
    names = [f"channel{place:02}" for place in range(channels)]
    for name in names:
        make_channel(session, name)
        fill(session, name, calls)
    assert len(dequeue(business, channels)) == channels

    served = {lease.channel for _ in range(calls) for lease in dequeue(session)}

    assert served == set(names)


@pytest.mark.parametrize("weight", [1, 100])
def test_a_message_that_was_enqueued_while_its_channel_still_stood_in_line(
    session: Session, business: Session, weight: int
) -> None:
    """When it is committed, its channel has lost the place."""
    make_channel(session, "a", weight=weight)
    make_channel(session, "b")
    fill(session, "b", 1)
    tick(session)
    enqueue(business, "b")
    assert len(drain(session)) == 1
    fill(session, "a", 5000)
    dequeue(session, 1)
    business.commit()

    _, before = messages_before(session, "b", 1)

    # Without a tick, such news are folded once in eight turns.
    assert before <= 8 + weight


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
    """A longer turn makes a large call cheap. Nobody has a second one before all have had theirs."""
    names = [f"channel{place:03}" for place in range(100)]
    for name in names:
        make_channel(session, name)
    enqueue_many(session, names * 20)
    tick(session, 3)
    calls = [[lease.channel for lease in dequeue(session, 100)] for _ in range(7)]

    assert all(max(Counter(call).values()) == 7 and len(set(call)) == 15 for call in calls)
    order = [name for call in calls for name in dict.fromkeys(call)]
    assert len(set(order[:100])) >= 99  # the last lane of a call may have had a part of its turn


def test_a_second_turn_in_one_call_does_not_find_what_the_first_one_took(session: Session) -> None:
    """The lane counts on messages that were purged meanwhile: nobody has looked since, so it goes to the tail."""
    for name in ("a", "b"):
        make_channel(session, name)
    fill(session, "a", 5)
    dequeue(session)
    session.execute("SELECT pgqueue_purge('default', 'a')")
    expected = sorted([enqueue(session, "a"), *enqueue_many(session, ["b"] * 3)])

    assert sorted(one(session, "SELECT ids FROM pgqueue_take('default', 10)")) == expected


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


def test_channels_that_are_paused_while_they_stand_in_line_hide_nobody(session: Session) -> None:
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

    taken = [lease.id for lease in dequeue(session, 9) if lease.channel == "last"]

    # One of each channel; more when the call begins at a random place behind some of them.
    assert taken
    waiting = [*range(first.id + 2, first.id + 10), first.id]
    assert taken == waiting[: len(taken)]
