"""A lone arrival goes with its message: the dequeue writes no lane, and leaves nothing behind that leads nowhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.sessions import Connect, Session, column, one, wait_for_lock
from tests.support.verbs import dequeue, drain, enqueue, fill, limit_set, make_channel, settle, tick

LEASED = "SELECT count(*) FROM pgqueue_message WHERE status = 2"


def ids(session: Session, limit: int = 1) -> list[int]:
    return [lease.id for lease in dequeue(session, limit)]


def give_lane(session: Session, channel: str = "default") -> None:
    """Give the channel a lane, which is empty now."""
    fill(session, channel, 2)
    drain(session)


@pytest.fixture(autouse=True)
def lane(session: Session) -> None:
    give_lane(session)


def test_a_message_behind_a_locked_one_keeps_its_arrival(session: Session, business: Session) -> None:
    """Two messages have one arrival: a dequeue that takes the second must leave it for the first."""
    fill(session, "default", 2)
    first = one(business, "SELECT id FROM pgqueue_message ORDER BY id LIMIT 1 FOR UPDATE")
    [second] = ids(session)
    assert second > first
    business.rollback()
    assert ids(session) == [first]


def test_a_locked_message_keeps_its_arrival(session: Session, business: Session) -> None:
    sent = enqueue(session)
    business.execute("SELECT FROM pgqueue_message FOR UPDATE")
    assert ids(session) == []
    business.rollback()
    assert ids(session) == [sent]


def test_a_dequeue_locks_no_message_that_it_leaves(session: Session, business: Session) -> None:
    first, urgent = enqueue(session), enqueue(session, priority=1)
    assert ids(business) == [urgent]
    free = column(session, "SELECT id FROM pgqueue_message FOR UPDATE SKIP LOCKED")
    assert free == [first]


def test_an_arrival_that_can_wait_is_not_overtaken(session: Session, business: Session) -> None:
    """Its enqueue saw a lane that led to it; the lane was emptied before it committed."""
    first = enqueue(session)
    fill(session, "default", 1)
    assert ids(session) == [first]
    earlier = enqueue(business)
    drain(session)
    later = enqueue(session)
    business.commit()
    assert [ids(session), ids(session)] == [[earlier], [later]]


def test_an_arrival_that_committed_late_is_not_overtaken(session: Session, business: Session) -> None:
    earlier = enqueue(business, priority=5)
    tick(session, 3)
    later = enqueue(session)
    business.commit()
    assert [ids(session), ids(session)] == [[earlier], [later]]


@pytest.mark.parametrize("limits", [{"max_concurrency": 1}, {"release_interval": "1 hour"}, {"ordered": True}], ids=str)
def test_a_limit_that_comes_during_the_dequeue_holds(
    session: Session, business: Session, limits: dict[str, Any]
) -> None:
    """No other dequeue knows of the lease yet."""
    enqueue(session)
    [lease] = dequeue(business)
    make_channel(session, "default", **limits)
    enqueue(session, priority=5)
    assert ids(session) == []
    business.commit()
    ids(session)
    assert one(session, LEASED) == 1 or "release_interval" in limits
    settle(session, [lease])


def test_a_shared_limit_that_comes_during_the_dequeue_holds(
    session: Session, other: Session, business: Session
) -> None:
    make_channel(session, "b")
    enqueue(session)
    [lease] = dequeue(business)
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    second = enqueue(session, "b")
    assert ids(other) == []
    business.commit()
    assert ids(other) == []
    settle(session, [lease])
    assert ids(other) == [second]


def test_a_message_that_came_into_the_line_meanwhile_is_not_overtaken(
    session: Session, other: Session, business: Session, connect: Connect
) -> None:
    """The first look shows an empty line. Before the next one, another dequeue folds the first message."""
    for name in "ab":
        make_channel(session, name)
        give_lane(session, name)
    enqueue(session, "a")
    first = enqueue(session, "b")
    later = enqueue(business, "b")
    wait = "PERFORM pg_advisory_lock(4711), pg_advisory_unlock(4711) WHERE current_setting('x.hold', true) = 'on'"
    source = one(session, "SELECT pg_get_functiondef('pgqueue_receive'::regproc)")
    session.execute(source.replace("BEGIN", f"BEGIN {wait};", 1))
    try:
        session.execute("SELECT pg_advisory_lock(4711)")
        other.execute("SET x.hold = 'on'; SET lock_timeout = 0")
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(ids, other)
            wait_for_lock(session, other)
            assert [lease.channel for lease in dequeue(connect(autocommit=True))] == ["a"]
            business.commit()
            session.execute("SELECT pg_advisory_unlock(4711)")
            assert held.result(60) == [first]
    finally:
        session.execute(source)
    assert ids(session) == [later]


def test_channels_whose_time_has_come_are_served_between_lone_messages(session: Session) -> None:
    """No tick runs here, and each dequeue finds a lone message. One in eight looks at what else could be served."""
    make_channel(session, "slow", release_interval="1 ms", release_burst=1)
    fill(session, "slow", 2)
    served = [lease.channel for lease in dequeue(session)]
    session.execute("SELECT pg_sleep(0.01)")
    for _ in range(200):
        enqueue(session)
        served += [lease.channel for lease in dequeue(session)]
    assert served.count("slow") == 2
