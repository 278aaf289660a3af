"""An empty dequeue learns whether another transaction holds what there is, so that its caller looks again soon."""

from __future__ import annotations

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, fill, make_channel


def contended(session: Session, *queues: str) -> bool:
    return one(session, "SELECT pgqueue_is_contended(%s)", list(queues or ["default"]))


def hold_a_limited_lane(session: Session, business: Session) -> None:
    """A place is free, and a message for it; an open transaction holds the lane."""
    make_channel(session, "few", max_concurrency=2)
    fill(session, "few", 2)
    assert len(dequeue(business, 1)) == 1


def test_an_empty_answer_tells_that_another_transaction_holds_what_there_is(
    session: Session, business: Session
) -> None:
    assert dequeue(session) == []
    assert not contended(session)
    hold_a_limited_lane(session, business)

    assert dequeue(session) == []
    assert contended(session)
    assert contended(session, "emails", "default")
    assert not contended(session, "emails")
    business.rollback()
    assert len(dequeue(session, 10)) == 2
    assert dequeue(session) == []
    assert not contended(session)


def test_an_arrival_that_another_transaction_folds_is_contended(session: Session, business: Session) -> None:
    make_channel(session, "few", max_concurrency=1)
    enqueue(session, "few")
    business.execute("SELECT FROM pgqueue_arrival FOR UPDATE")

    assert dequeue(session) == []
    assert contended(session)


def test_messages_that_may_not_run_are_not_contended(session: Session) -> None:
    for name, limits in {"full": {"max_concurrency": 1}, "slow": {"release_interval": "1 hour"}, "held": {}}.items():
        make_channel(session, name, **limits)
        fill(session, name, 2)
    session.execute("SELECT pgqueue_channel_pause('default', 'held')")
    make_channel(session, "stopped", queue="paused")
    enqueue(session, "stopped", "paused")
    session.execute("SELECT pgqueue_queue_pause('paused')")
    enqueue(session, delay="1 hour")
    assert len(dequeue(session, 10)) == 2

    for queue in ("default", "paused"):
        assert dequeue(session, 10, queue=queue) == []
    assert not contended(session, "default", "paused")


def test_a_due_message_is_promoted_while_another_transaction_holds_a_lane(session: Session, business: Session) -> None:
    hold_a_limited_lane(session, business)
    due = enqueue(session, delay="1 hour")
    session.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE id = %s", [due])

    assert [lease.id for lease in dequeue(session)] == [due]
