"""An empty dequeue learns whether another transaction holds what there is, so that its caller looks again soon."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.sessions import Session, column, one
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


@pytest.mark.parametrize("verb", ["dequeue", "pop", "claim"])
def test_no_consumer_sleeps_in_its_transaction(
    session: Session, business: Session, connect: Callable[..., Session], verb: str
) -> None:
    hold_a_limited_lane(session, business)
    consumers = [connect(autocommit=True) for _ in range(3)]
    if verb == "claim":
        streams = [
            one(each, "SELECT owner FROM pgqueue_stream_open(%s, 'default')", f"s{place}")
            for place, each in enumerate(consumers)
        ]
    sleeping: list[str] = []
    calls = 60

    def consume(place: int) -> None:
        for _ in range(calls):
            if verb == "claim":
                query = "SELECT messages, contended FROM pgqueue_stream_claim(%s, %s, 0)"
                assert consumers[place].execute(query, [f"s{place}", streams[place]]).fetchone() == (0, True)
            else:
                assert consumers[place].execute(f"SELECT id FROM pgqueue_{verb}()").fetchall() == []

    def watch() -> None:
        query = "SELECT wait_event FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        while any(thread.is_alive() for thread in threads):
            sleeping.extend(column(session, query))

    threads = [threading.Thread(target=consume, args=[place], daemon=True) for place in range(3)]
    for thread in threads:
        thread.start()
    watch()

    assert sleeping == []
