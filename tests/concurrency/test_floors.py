"""The floors that a tick moves may pass nothing that a transaction can still show below them."""

from __future__ import annotations

import pytest
from psycopg.errors import SerializationFailure

from tests.support.sessions import Connect, Session, one
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, settle, tick


@pytest.mark.parametrize("limits", [{}, {"max_concurrency": 9}], ids=["new", "parked"])
def test_lanes_of_the_youngest_transaction(session: Session, business: Session, limits: dict[str, int]) -> None:
    """It has put two lanes into the line, and nothing that is younger has ended when the tick reads its snapshot."""
    for name in "ab":
        make_channel(session, name, **limits)
    enqueue_many(session, "ab")
    drain(session)
    tick(session, 2)
    enqueue_many(session, "ab" * 5)
    assert len(dequeue(business, 2)) == 2
    tick(session, 2)
    business.commit()

    assert len(drain(session)) == 8


def test_a_lane_that_the_youngest_transaction_has_parked(session: Session, business: Session) -> None:
    """Its time is over before the transaction ends."""
    make_channel(session, "slow", release_interval="5 ms")
    fill(session, "slow", 2)
    tick(session)
    assert len(dequeue(business, 1)) == 1
    session.execute("SELECT pg_sleep(0.01)")
    tick(session, 2)
    business.commit()

    assert len(drain(session)) == 1


def test_lanes_of_two_open_transactions(session: Session, connect: Connect) -> None:
    """The older one has put its lane behind that of the younger one."""
    older, younger = connect(), connect()
    make_channel(session, "a")
    make_channel(session, "b")
    fill(session, "a", 5)
    fill(session, "b", 5)
    one(older, "SELECT pg_current_xact_id()::text")
    assert len(dequeue(younger, 1)) == 1
    assert len(dequeue(older, 1)) <= 1
    tick(session, 2)
    younger.commit()
    tick(session, 2)
    older.commit()
    tick(session, 2)

    drain(session)
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1") == 0


@pytest.mark.parametrize("ticks", [1, 2, 5])
@pytest.mark.parametrize("first", [0, 1])
def test_lanes_that_stay_uncommitted_through_ticks(session: Session, connect: Connect, ticks: int, first: int) -> None:
    make_channel(session, "a")
    make_channel(session, "b")
    make_channel(session, "slow", release_interval="20 ms")
    pair = [connect(), connect()]
    for taker in pair:
        one(taker, "SELECT pg_current_xact_id()::text")
    fill(session, "a", 5)
    dequeue(pair[0], 1)
    tick(session)
    fill(session, "b", 5)
    fill(session, "slow", 2)
    dequeue(pair[1], 2)
    for _ in range(ticks):
        tick(session)
    pair[first].commit()
    for _ in range(ticks):
        tick(session)
    pair[1 - first].commit()
    tick(session, 2)
    taken = 0
    for _ in range(50):
        taken += len(drain(session))
        session.execute("SELECT pg_sleep(0.002)")

    assert taken + one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 2") == 12


def test_a_lane_that_was_parked_long_before(session: Session) -> None:
    """It stands below the floor of the line while it is parked, and comes back."""
    make_channel(session, "slow", release_interval="1 hour")
    make_channel(session, "full", max_concurrency=1)
    make_channel(session, "a")
    fill(session, "slow", 2)
    fill(session, "full", 2)
    leases = dequeue(session, 2)
    assert len(leases) == 2
    for _ in range(30):
        fill(session, "a", 3)
        drain(session, 1)
        tick(session)
    settle(session, leases)
    assert [lease.channel for lease in dequeue(session, 5)] == ["full"]
    session.execute(
        "UPDATE pgqueue_lane SET parked_until = clock_timestamp(), next_at = '-infinity'"
        " WHERE parked_until < 'infinity'"
    )
    tick(session, 2)

    assert [lease.channel for lease in dequeue(session, 5)] == ["slow"]


def test_arrivals_of_several_late_transactions(session: Session, connect: Connect) -> None:
    names = [f"late{place}" for place in range(6)]
    late = []
    for name in names:
        make_channel(session, name, **({"max_concurrency": 5} if name > "late2" else {}))
    for name in names:
        late.append(connect())
        enqueue(late[-1], name)
        enqueue(session, name)
    taken = []
    for transaction, name in zip(late[::-1], names[::-1], strict=True):
        taken += drain(session, 1)
        tick(session, 3)
        enqueue(transaction, name)
        enqueue_many(transaction, names)
        transaction.commit()

    taken += drain(session)
    assert len({lease.id for lease in taken}) == len(taken) == 6 * 9


def test_a_late_transaction_with_a_pinned_horizon(session: Session, business: Session, connect: Connect) -> None:
    pin = connect(autocommit=False)
    pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    pin.execute("SELECT count(*) FROM pgqueue_message")
    make_channel(session, "a")
    enqueue(business, "a")
    for _ in range(20):
        enqueue(session, "a")
        drain(session, 1)
        tick(session)
    business.commit()

    assert len(drain(session)) == 1
    pin.rollback()


def test_a_late_transaction_that_dequeues_itself(session: Session, business: Session) -> None:
    """Its own xid is older than the floor of the arrivals."""
    make_channel(session, "a")
    one(business, "SELECT pg_current_xact_id()::text")
    for _ in range(5):
        enqueue(session, "a")
        drain(session)
        tick(session, 2)
    fill(session, "a", 3)
    assert len(dequeue(business, 1)) == 1
    enqueue(business, "a")
    tick(session, 3)
    business.commit()
    tick(session, 3)

    assert len(drain(session)) == 3


def test_an_old_transaction_that_takes_what_it_has_enqueued_itself(session: Session, business: Session) -> None:
    enqueue(business)
    tick(session, 3)

    assert len(dequeue(business)) == 1


def test_a_tick_that_is_rolled_back(session: Session, business: Session) -> None:
    make_channel(session, "a")
    fill(session, "a", 3)
    tick(business, 3)
    enqueue(session, "a")
    business.rollback()

    assert len(drain(session)) == 4


def test_a_tick_under_repeatable_read(session: Session, business: Session) -> None:
    """It moves the floors by an old snapshot; what came since must stay above them."""
    business.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    one(business, "SELECT count(*) FROM pgqueue_floor")
    make_channel(session, "a")
    fill(session, "a", 2)
    dequeue(session, 1)
    tick(session, 2)
    try:
        tick(business)
        business.commit()
    except SerializationFailure:
        business.rollback()
    tick(session)
    fill(session, "a", 2)

    assert len(drain(session)) == 3


def test_a_tick_with_an_old_snapshot(session: Session, business: Session, connect: Connect) -> None:
    """Lanes that were committed since are not seen by it, and their transaction is not running any more."""
    for name in "ab":
        make_channel(session, name)
    enqueue_many(session, "ab" * 5)
    assert len(dequeue(business, 2)) == 2
    tick(session, 2)
    old = connect()
    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    one(old, "SELECT count(*) FROM pgqueue_floor")
    business.commit()
    try:
        tick(old)
        old.commit()
    except SerializationFailure:
        old.rollback()
    tick(session, 2)

    assert len(drain(session)) == 8
