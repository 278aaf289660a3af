"""A cancel while another session takes, settles, extends or sweeps the message: one of them wins."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.support.chance import STRESS
from tests.support.sessions import Connect, Session, one, together, until_it_waits, wait_for_lock
from tests.support.verbs import Lease, dequeue, enqueue, fill, make_channel, retry, settle


def cancel(session: Session, *ids: int) -> dict[int, str]:
    return dict(session.execute("SELECT id, outcome FROM pgqueue_cancel(%s)", [sorted(ids)]).fetchall())


def outcomes(session: Session) -> list[str]:
    """Return the outcome of each message in the archive, and live or dead for the others."""
    return [
        row[0]
        for row in session.execute(
            "SELECT outcome FROM pgqueue_archived_message UNION ALL SELECT 'live' FROM pgqueue_message"
            " UNION ALL SELECT 'dead' FROM pgqueue_dead_letter"
        ).fetchall()
    ]


@pytest.fixture
def operator(connect: Connect) -> Session:
    return connect(autocommit=True)


def cancelled(session: Session, business: Session, operator: Session, message: int) -> str:
    """Cancel a message for which the open transaction of ``business`` has to be waited for."""
    return until_it_waits(session, operator, lambda: cancel(operator, message), business.commit)[message]


def test_a_completion_under_way_wins(session: Session, business: Session, operator: Session) -> None:
    message = enqueue(session)
    settle(business, dequeue(session))
    assert cancelled(session, business, operator, message) == "settled"
    assert outcomes(session) == ["completed"]


def test_a_dequeue_under_way_has_it(session: Session, business: Session, operator: Session) -> None:
    message = enqueue(session)
    leases = dequeue(business)
    assert cancelled(session, business, operator, message) == "requested"
    retry(session, leases)
    assert outcomes(session) == ["cancelled"]


def test_a_dequeue_passes_by_what_is_being_cancelled(session: Session, business: Session) -> None:
    first, second = enqueue(session), enqueue(session)
    cancel(business, first)

    assert [lease.id for lease in dequeue(session, 10)] == [second]
    business.commit()
    assert dequeue(session) == []


@pytest.mark.parametrize("verb", ["defer", "retry"])
def test_a_worker_that_gives_back_what_is_being_cancelled_waits_and_cancels(
    session: Session, business: Session, connect: Connect, verb: str
) -> None:
    """The request is not committed yet when the worker comes: it must not slip through."""
    message = enqueue(session)
    leases = dequeue(session)
    assert cancel(business, message) == {message: "requested"}
    worker = connect(autocommit=True)
    give_back: Callable[[], object] = (
        (lambda: settle(worker, leases, "defer")) if verb == "defer" else (lambda: retry(worker, leases))
    )

    until_it_waits(session, worker, give_back, business.commit)

    assert outcomes(session) == ["cancelled"]


def test_the_sweep_leaves_what_is_being_cancelled_to_the_next_sweep(session: Session, business: Session) -> None:
    message = enqueue(session)
    dequeue(session, lease="1 microsecond")
    session.execute("SELECT pg_sleep(0.001)")
    cancel(business, message)

    assert one(session, "SELECT retried + cancelled FROM pgqueue_sweep()") == 0
    business.commit()
    assert one(session, "SELECT cancelled FROM pgqueue_sweep()") == 1
    assert outcomes(session) == ["cancelled"]


def test_a_cancellation_waits_for_a_sweep_under_way(session: Session, business: Session, operator: Session) -> None:
    message = enqueue(session)
    dequeue(session, lease="1 microsecond")
    session.execute("SELECT pg_sleep(0.001)")
    assert one(business, "SELECT retried FROM pgqueue_sweep()") == 1
    assert cancelled(session, business, operator, message) == "cancelled"
    assert outcomes(session) == ["cancelled"]


@pytest.mark.parametrize("_round", range(5 * STRESS))
def test_workers_and_operators_on_the_same_messages(session: Session, connect: Connect, _round: int) -> None:
    """All sessions work on all messages at once. Each message ends in one place, and no transaction fails."""
    make_channel(session, "limited", max_concurrency=3)
    fill(session, "default", 40)
    fill(session, "limited", 40)
    ids = [row[0] for row in session.execute("SELECT id FROM pgqueue_message").fetchall()]

    def worker(step: int) -> None:
        own = connect(autocommit=True)
        for turn in range(60):
            leases = dequeue(own, 7)
            settle(own, leases, "heartbeat", "1 minute", True)
            if (turn + step) % 3:
                settle(own, leases, "complete", None, True)
            else:
                settle(own, leases, "defer", None, None, None, True, True)

    def operator(step: int) -> None:
        own = connect(autocommit=True)
        for start in range(0, len(ids), 8):
            cancel(own, *ids[start : start + 8 : step])
            own.execute("SELECT pgqueue_sweep()")

    together(lambda: worker(0), lambda: worker(1), lambda: operator(2), lambda: operator(1))

    assert len(outcomes(session)) == len(ids)
    while leases := dequeue(session, 50):
        settle(session, leases, "defer")
    assert set(outcomes(session)) <= {"completed", "cancelled"}


def test_two_operators_with_opposite_orders_do_not_deadlock(
    session: Session, business: Session, connect: Connect
) -> None:
    fill(session, "default", 9)
    leases: list[Lease] = dequeue(session, 9)
    ids = [lease.id for lease in leases]
    business.execute("SELECT id FROM pgqueue_message WHERE id = %s FOR UPDATE", [ids[4]])
    first, second = connect(autocommit=True), connect(autocommit=True)

    def asked(operator: Session, order: list[int]) -> psycopg.Cursor:
        return operator.execute("SELECT pgqueue_cancel(%s)", [order])

    def release() -> None:
        wait_for_lock(session, first)
        wait_for_lock(session, second)
        business.rollback()

    together(lambda: asked(first, ids), lambda: asked(second, ids[::-1]), release)

    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE cancelled_at IS NOT NULL") == 9
