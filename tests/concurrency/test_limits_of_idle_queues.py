"""A queue without workers keeps no place of a shared limit from the others."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import Lease, dequeue, enqueue, limit_set, make_channel, retry, settle, tick

IDLE = ["i1", "i2", "i3"]


@pytest.fixture
def waiting(session: Session) -> None:
    """Three channels of a queue without workers, and one of the queue that is served, wait for one place."""
    limit_set(session, "stripe", max_concurrency=1)
    for name in IDLE:
        make_channel(session, name, "idle")
        for _ in range(2):
            enqueue(session, name, "idle", limits=["stripe"])
    make_channel(session, "a")
    for _ in range(10):
        enqueue(session, "a", limits=["stripe"])
    tick(session)
    assert one(session, "SELECT array_agg(promoted_for IS NOT NULL) FROM pgqueue_message WHERE status = 1") == [True]


def pass_seconds(session: Session, seconds: int) -> None:
    session.execute("UPDATE pgqueue_message SET promoted_at = promoted_at - %s * interval '1 second'", [seconds])


def served(session: Session, calls: int) -> list[Lease]:
    """Serve the queue as a worker does, with a tick before each call."""
    taken = []
    for _ in range(calls):
        tick(session)
        leases = dequeue(session)
        taken += leases
        settle(session, leases)
    return taken


def test_a_message_that_was_made_ready_keeps_its_place_for_a_moment(session: Session, waiting: None) -> None:
    assert served(session, 3) == []

    assert len(dequeue(session, queue="idle")) == 1


def test_a_queue_without_workers_keeps_no_place(session: Session, waiting: None) -> None:
    pass_seconds(session, 6)

    assert len(served(session, 10)) == 10, "one for each call, whichever channel has the turn"


def test_a_queue_without_workers_gets_no_more_than_a_turn_ahead(session: Session, waiting: None) -> None:
    pass_seconds(session, 6)
    served(session, 10)

    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1") == len(IDLE)


def test_a_queue_whose_workers_come_back_has_its_turns_again(session: Session, waiting: None) -> None:
    pass_seconds(session, 6)
    served(session, 3)

    counts: Counter[str] = Counter()
    for _ in range(20):
        for queue in ("default", "idle"):
            tick(session)
            leases = dequeue(session, queue=queue)
            counts[queue] += len(leases)
            settle(session, leases)

    assert counts == {"default": 7, "idle": 6}


@pytest.mark.parametrize("why", ["paused", "at its limit", "in order"])
def test_a_channel_that_is_not_served_does_not_slow_down_its_queue(session: Session, why: str) -> None:
    """A message of it was made ready, and cannot be leased for long. It says nothing about the workers of the queue."""
    limit_set(session, "stripe", max_concurrency=20)
    make_channel(session, "still", max_concurrency=1)
    make_channel(session, "a")
    if why != "paused":
        enqueue(session, "still")
        running = dequeue(session)
    enqueue(session, "still", limits=["stripe"])
    tick(session)
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE promoted_for > 0") == 1
    if why == "paused":
        session.execute("SELECT pgqueue_channel_pause('default', 'still')")
    elif why == "in order":
        make_channel(session, "still", ordered=True)
        retry(session, running, "1 hour")
    assert dequeue(session) == []
    pass_seconds(session, 6)
    for _ in range(20):
        enqueue(session, "a", limits=["stripe"])

    assert [lease.channel for lease in dequeue(session, 10)] == ["a"] * 10
