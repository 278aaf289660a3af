"""No missed wake-up: after any two calls of two sessions at one moment, the next dequeue gets each ready message."""

from __future__ import annotations

import pytest

from tests.support.sessions import Connect, Session, column, one, together, wait_for_lock
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, settle, tick


def free_line(session: Session, count: int, *, size: int = 12) -> None:
    """`count` lanes in the line with more messages than a batch takes."""
    names = [f"filler{place:03}" for place in range(count)]
    for name in names:
        make_channel(session, name)
    enqueue_many(session, names * size)
    tick(session, 3)
    assert one(session, "SELECT count(*) FROM pgqueue_lane WHERE parked_until IS NULL") == count


@pytest.mark.parametrize("limit", ["pause", "max_concurrency", "release_interval"])
def test_a_limit_that_is_lifted_while_the_line_is_walked(session: Session, connect: Connect, limit: str) -> None:
    """A dequeue that has read the limit before it was lifted must not park the lane for ever after it was lifted."""
    free_line(session, 12)
    limited = {
        "max_concurrency": {"max_concurrency": 1},
        "release_interval": {"release_interval": "1 hour"},
        "pause": {},
    }[limit]
    make_channel(session, "last", **limited)
    fill(session, "last", 3)
    if limit == "pause":
        session.execute("SELECT pgqueue_channel_pause('default', 'last')")
    else:
        while "last" not in [lease.channel for lease in dequeue(session, 1)]:
            pass
        make_channel(session, "last", weight=2)  # an arrival: it is worth another look
    tick(session, 2)
    assert one(
        session, "SELECT channel_id FROM pgqueue_lane WHERE parked_until IS NULL ORDER BY seq DESC LIMIT 1"
    ) == one(session, "SELECT id FROM pgqueue_channel WHERE name = 'last'")
    # A call that moves a lane to the tail now stands still: at the first of the lanes, after reading the limits of all.
    holder, walker = connect(autocommit=False), connect(autocommit=True)
    holder.execute("ALTER SEQUENCE pgqueue_lane_seq OWNED BY NONE")

    def lift() -> None:
        wait_for_lock(session, walker)
        if limit == "pause":
            session.execute("SELECT pgqueue_channel_resume('default', 'last')")
        else:
            make_channel(session, "last", **{limit: None})
        tick(session)  # folds the arrivals: the lane is in the line, nothing is to be done
        holder.rollback()

    together(lambda: dequeue(walker, 52), lift)  # four of each lane

    drain(session)
    ready = (
        "SELECT c.name FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id WHERE m.status = 1"
    )
    assert column(session, ready) == []


@pytest.mark.parametrize("verb", ["complete", "defer", "dead_letter"])
def test_a_limit_that_comes_while_a_settlement_is_open(session: Session, business: Session, verb: str) -> None:
    """The settlement has not seen the limit, the dequeue not the settlement: the lane must not park for good."""
    make_channel(session, "a")
    fill(session, "a", 3)
    leases = dequeue(session, 1)
    # No limit yet: it frees no place.
    settle(business, leases, verb, *([["refused"]] if verb == "dead_letter" else []))
    make_channel(session, "a", max_concurrency=1)
    assert dequeue(session, 1) == []  # the lease is still there: parked
    business.commit()

    session.execute("SELECT * FROM pgqueue_sweep()")

    assert len(drain(session)) == (3 if verb == "defer" else 2)


def test_messages_that_arrive_while_their_lane_is_deleted(session: Session, business: Session, other: Session) -> None:
    make_channel(session, "a")
    fill(session, "a", 1)
    tick(session)  # a lane with one message
    assert len(dequeue(business, 1)) == 1  # deletes the lane, not committed
    enqueue(session, "a")
    drain(other)
    fill(session, "a", 2)
    drain(other)
    tick(session)
    business.commit()

    drain(session)
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1") == 0


def test_a_rolled_back_dequeue_gives_everything_back(session: Session, business: Session, other: Session) -> None:
    """Arrivals that it folded, lanes that it made or deleted, messages that it took straight from an arrival."""
    make_channel(session, "a")
    make_channel(session, "b", max_concurrency=2)
    enqueue(session, "a")
    assert len(dequeue(business, 1)) == 1  # straight from the arrival
    business.rollback()
    enqueue_many(session, ["a", "b"] * 5)
    assert len(dequeue(business, 20)) == 8
    business.rollback()
    session.execute("SELECT pgqueue_tick()")
    assert len(dequeue(business, 20)) == 8
    drain(other)
    business.rollback()

    drain(session)

    assert one(session, "SELECT count(*) FROM pgqueue_message") == 0


def test_an_earlier_message_that_commits_later(session: Session, business: Session) -> None:
    """Its key is below the floor of the lane by then."""
    make_channel(session, "a")
    first = enqueue(business, "a")
    fill(session, "a", 5)
    dequeue(session, 1)
    dequeue(session, 1)
    business.commit()

    assert dequeue(session, 1)[0].id == first
    assert len(drain(session)) == 3


def test_a_more_urgent_message_while_the_lane_is_held(session: Session, business: Session) -> None:
    make_channel(session, "a", max_concurrency=10)
    fill(session, "a", 3)
    dequeue(business, 1)  # holds the lane
    urgent = enqueue(session, "a", priority=9)
    assert dequeue(session, 1) == []
    business.commit()

    assert dequeue(session, 1)[0].id == urgent


def test_a_place_that_comes_free_while_the_lane_is_being_parked(
    session: Session, business: Session, other: Session
) -> None:
    make_channel(session, "a", max_concurrency=1)
    fill(session, "a", 3)
    leases = dequeue(session, 1)
    make_channel(session, "a", weight=2)  # into the line again
    tick(session)
    assert dequeue(business, 1) == []  # looks at the lane and parks it, not committed
    settle(other, leases)
    tick(session)
    business.commit()

    assert len(drain(session)) == 2


def empty_lane(session: Session, business: Session, other: Session) -> tuple[int, list[int]]:
    """Enqueue a message while its lane is being emptied. Return its id, and the ids that are dequeued then."""
    make_channel(session, "a")
    first = enqueue(session, "a")
    tick(session)
    assert [lease.id for lease in dequeue(business, 1)] == [first]  # parks the lane as empty, not committed
    later = enqueue(session, "a")
    tick(other)
    business.commit()
    return later, [lease.id for lease in drain(session)]


def test_a_message_that_comes_while_the_lane_is_being_emptied(
    session: Session, business: Session, other: Session
) -> None:
    """Its arrival can wait, because the lane stood in line: it must outlast a fold before the lane is parked."""
    later, dequeued = empty_lane(session, business, other)
    assert dequeued == [later]


def test_promoted_messages_of_an_open_transaction(session: Session, business: Session) -> None:
    make_channel(session, "a")
    enqueue(session, "a", delay="10 ms")
    session.execute("SELECT pg_sleep(0.02)")
    assert one(business, "SELECT pgqueue_tick()") == 1
    assert dequeue(session, 1) == []
    business.rollback()

    assert len(drain(session)) == 1


def test_a_stale_arrival_does_no_harm(session: Session, business: Session, other: Session) -> None:
    """The message was taken by another way before its arrival was folded."""
    make_channel(session, "a")
    fill(session, "a", 10)
    tick(session)
    dequeue(business, 1)  # holds the lane
    enqueue(session, "a")
    assert len(dequeue(other, 20)) == 10
    business.commit()

    assert drain(session) == []
    tick(session, 2)
    assert drain(session) == []
    assert one(session, "SELECT count(*) FROM pgqueue_arrival") == 0
    assert one(session, "SELECT count(*) FROM pgqueue_lane WHERE parked_until IS NULL") == 0


def leave_line(session: Session, business: Session, name: str) -> int:
    """A message, not committed, that was enqueued while its channel stood in the line. Now it has no lane any more."""
    make_channel(session, name)
    fill(session, name, 1)
    tick(session)
    left = enqueue(business, name)
    drain(session)
    assert one(session, "SELECT count(*) FROM pgqueue_lane WHERE parked_until IS NULL") == 0
    return left


def test_news_that_could_wait_until_their_lane_went(session: Session, business: Session, connect: Connect) -> None:
    left = leave_line(session, business, "a")
    make_channel(session, "held", max_concurrency=100)
    fill(session, "held", 3)
    tick(session)
    holder = connect()
    assert len(dequeue(holder, 1)) == 1
    business.commit()

    assert [lease.id for lease in dequeue(session, 5)] == [left]


def test_news_that_could_wait_are_not_overtaken(session: Session, business: Session) -> None:
    left = leave_line(session, business, "a")
    business.commit()
    later = enqueue(session, "a")

    assert [lease.id for _ in range(2) for lease in dequeue(session, 1)] == [left, later]


def test_a_dequeue_beside_a_tick_does_not_answer_that_there_is_nothing(session: Session, connect: Connect) -> None:
    """The tick makes a lane of the arrivals between two statements of the dequeue."""
    make_channel(session, "default")
    ticker, taker = connect(autocommit=True), connect(autocommit=True)
    for _ in range(150):
        fill(session, "default", 1)
        _, leases = together(lambda: tick(ticker), lambda: dequeue(taker, 5))
        assert leases
        settle(taker, leases)
