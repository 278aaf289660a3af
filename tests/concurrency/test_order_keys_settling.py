"""A message of an order key that comes while the one before it is being settled is delivered after that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.sessions import Connect, Session, one
from tests.support.verbs import Lease, dequeue, enqueue, settle, tick

KEY = "invoice-7"
DEAD = "SELECT pgqueue_dead_letter(%s, %s, array_fill('refused'::text, ARRAY[1]))"
ENDS: dict[str, Callable[[Session, Lease], object]] = {
    "complete": lambda session, lease: settle(session, [lease]),
    "complete, archiving nothing": lambda session, lease: session.execute(
        "SELECT pgqueue_complete(%s, %s, p_archive => 'none')", [[lease.id], [lease.token]]
    ),
    "dead_letter": lambda session, lease: session.execute(DEAD, [[lease.id], [lease.token]]),
    "discard": lambda session, lease: session.execute("SELECT pgqueue_discard(%s)", [[lease.id]]),
}


def send(session: Session) -> int:
    return enqueue(session, order_key=KEY)


def ids(leases: list[Lease]) -> list[int]:
    return [lease.id for lease in leases]


@pytest.mark.parametrize("end", ENDS)
def test_a_message_that_was_enqueued_since_is_the_next(session: Session, business: Session, end: str) -> None:
    send(session)
    [lease] = dequeue(session)
    ENDS[end](business, lease)
    second = send(session)

    assert dequeue(session, 10) == [], "the settlement may yet be rolled back"
    business.commit()

    assert ids(dequeue(session, 10)) == [second]


def test_a_message_that_commits_late_goes_before_the_one_that_was_the_next(
    session: Session, business: Session, connect: Connect
) -> None:
    enqueuer = connect(autocommit=False)
    late = send(enqueuer)
    first, second = send(session), send(session)
    [lease] = dequeue(session)
    assert lease.id == first
    settle(business, [lease])
    enqueuer.commit()

    assert dequeue(session, 10) == []
    business.commit()

    [lease] = dequeue(session, 10)
    assert lease.id == late
    settle(session, [lease])
    assert ids(dequeue(session, 10)) == [second]


def test_after_a_settlement_that_was_rolled_back_the_message_still_holds_its_key(
    session: Session, business: Session
) -> None:
    send(session)
    [lease] = dequeue(session)
    settle(business, [lease])
    second = send(session)
    assert dequeue(session, 10) == []
    business.rollback()

    assert dequeue(session, 10) == []
    settle(session, [lease])
    assert ids(dequeue(session, 10)) == [second]


def test_a_settlement_beside_a_dequeue_that_holds_the_key_leaves_a_note(
    session: Session, business: Session, connect: Connect
) -> None:
    """The dequeue sets aside what the settlement has not seen."""
    send(session)
    [lease] = dequeue(session)
    dequeuer = connect(autocommit=False)
    second = send(session)
    assert dequeue(dequeuer, 10) == []
    settle(business, [lease])
    assert one(business, "SELECT count(*) FROM pgqueue_order_note") == 2
    dequeuer.commit()
    business.commit()

    assert ids(dequeue(session, 10)) == [second]
    assert one(session, "SELECT count(*) FROM pgqueue_order_note") == 0


def test_a_settlement_with_a_snapshot_of_the_past_leaves_a_note(session: Session, business: Session) -> None:
    send(session)
    [lease] = dequeue(session)
    business.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    assert one(business, "SELECT count(*) FROM pgqueue_message") == 1
    second = send(session)
    assert dequeue(session, 10) == [], "it is set aside"
    settle(business, [lease])
    business.commit()

    tick(session)
    assert ids(dequeue(session, 10)) == [second]


def test_the_note_of_a_key_stays_while_a_settlement_holds_the_key(session: Session, business: Session) -> None:
    """The settlement has seen that the second message is ready, and does not look again when that is cancelled."""
    _, second, third = send(session), send(session), send(session)
    [lease] = dequeue(session, 10)
    session.execute("SELECT pgqueue_reschedule(%s)", [[second]])
    settle(business, [lease])
    session.execute("SELECT pgqueue_cancel(%s)", [[second]])
    tick(session)
    business.commit()

    assert ids(dequeue(session, 10)) == [third]
    assert one(session, "SELECT count(*) FROM pgqueue_order_note") == 0
