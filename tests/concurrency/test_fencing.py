"""C4: a worker that lost a lease changes nothing: two sessions settle one message, a settlement is repeated."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from django.db import connection

from django_pgqueue import complete, heartbeat
from django_pgqueue import dequeue as dequeue_deliveries
from django_pgqueue.exceptions import LeaseLost
from tests.support.sessions import Connect, Session, one, together, until_it_waits
from tests.support.verbs import Lease, dequeue, drain, enqueue, fill, make_channel, retry, settle
from tests.support.waiting import eventually

SETTLE: dict[str, Callable[[Session, list[Lease]], object]] = {
    "complete": lambda session, leases: settle(session, leases),
    "defer": lambda session, leases: settle(session, leases, "defer"),
    "retry": lambda session, leases: retry(session, leases),
    "dead_letter": lambda session, leases: settle(session, leases, "dead_letter", ["refused"] * len(leases)),
    "heartbeat": lambda session, leases: settle(session, leases, "heartbeat"),
}


@pytest.fixture
def expired(session: Session) -> list[Lease]:
    enqueue(session, max_attempts=9)
    leases = dequeue(session, lease="1 microsecond")
    session.execute("SELECT pg_sleep(0.001)")
    return leases


def sweep(session: Session) -> int:
    return one(session, "SELECT retried FROM pgqueue_sweep()")


def homes(session: Session) -> tuple[int, int, int]:
    """Live, archived, dead."""
    return tuple(
        one(session, f"SELECT count(*) FROM pgqueue_{table}")
        for table in ("message", "archived_message", "dead_letter")
    )


@pytest.mark.parametrize("verb", SETTLE)
def test_a_settlement_under_way_wins_over_the_sweep(
    session: Session, business: Session, expired: list[Lease], verb: str
) -> None:
    SETTLE[verb](business, expired)

    assert sweep(session) == 0
    business.commit()
    assert sweep(session) == 0


@pytest.mark.parametrize("verb", SETTLE)
def test_a_sweep_under_way_wins_over_a_settlement(
    session: Session, business: Session, connect: Connect, expired: list[Lease], verb: str
) -> None:
    worker = connect(autocommit=True)
    assert sweep(business) == 1

    with pytest.raises(psycopg.Error) as lost:
        until_it_waits(session, worker, lambda: SETTLE[verb](worker, expired), business.commit)

    assert lost.value.sqlstate == "PGQ02"
    assert homes(session) == (1, 0, 0)


@pytest.mark.parametrize("verb", SETTLE)
def test_the_old_holder_cannot_touch_the_new_lease(session: Session, expired: list[Lease], verb: str) -> None:
    sweep(session)
    session.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp()")
    renewed = dequeue(session)
    assert [lease.attempts for lease in renewed] == [2]

    with pytest.raises(psycopg.Error) as lost:
        SETTLE[verb](session, expired)

    assert lost.value.sqlstate == "PGQ02"
    assert settle(session, renewed) == [renewed[0].id]


@pytest.mark.parametrize("first", SETTLE)
@pytest.mark.parametrize("second", SETTLE)
def test_two_settlements_of_one_lease(
    session: Session, business: Session, connect: Connect, first: str, second: str
) -> None:
    enqueue(session)
    leases = dequeue(session)
    worker = connect(autocommit=True)
    SETTLE[first](business, leases)

    def late() -> str | None:
        try:
            SETTLE[second](worker, leases)
        except psycopg.Error as error:
            return error.sqlstate
        return None

    assert until_it_waits(session, worker, late, business.commit) == (None if first == "heartbeat" else "PGQ02")
    assert sum(homes(session)) == 1


def test_a_completion_whose_answer_was_lost_is_repeated(session: Session, connect: Connect) -> None:
    fill(session, "default", 3)
    leases = dequeue(session, 3)
    worker = connect()
    settle(worker, leases)
    # COMMIT is sent, and the client does not read the answer.
    worker.pgconn.send_query(b"COMMIT")
    worker.pgconn.flush()
    eventually(lambda: one(session, "SELECT count(*) = 3 FROM pgqueue_archived_message"))
    worker.close()

    with pytest.raises(psycopg.Error) as lost:
        settle(session, leases)
    assert lost.value.sqlstate == "PGQ02"
    assert settle(session, leases, "complete", None, True) == [lease.id for lease in leases]

    assert homes(session) == (0, 3, 0)


def test_a_completion_that_did_not_reach_its_commit_is_repeated(session: Session, connect: Connect) -> None:
    fill(session, "default", 3)
    leases = dequeue(session, 3)
    worker = connect()
    settle(worker, leases)
    session.execute("SELECT pg_terminate_backend(%s, 5000)", [worker.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        worker.commit()

    assert len(settle(session, leases)) == 3

    assert homes(session) == (0, 3, 0)


def test_batches_of_the_same_leases_in_opposite_order_do_not_deadlock(session: Session, connect: Connect) -> None:
    """The lease keeper and the completer of a worker work on the same messages, each in an order of its own."""
    make_channel(session, "a")
    fill(session, "a", 9)
    deliveries = dequeue_deliveries(limit=9)
    middle = connect()
    middle.execute("SELECT id FROM pgqueue_message WHERE id = %s FOR UPDATE", [deliveries[4].id])

    def in_thread(verb: Callable[..., object], batch: list) -> str | None:
        try:
            verb(batch)
        except LeaseLost:
            return "lost"
        finally:
            connection.close()
        return None

    def release() -> None:
        eventually(lambda: one(session, "SELECT count(*) >= 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        middle.rollback()

    together(lambda: in_thread(complete, deliveries[::-1]), lambda: in_thread(heartbeat, deliveries), release)

    assert homes(session) == (0, 9, 0)
    assert drain(session) == []
