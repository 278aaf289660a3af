"""While the limit of a queue is far from full, dequeues of one message pass beside its gate; the limit stays exact."""

from __future__ import annotations

import pytest

from tests.concurrency.queue_workers import CHANNELS, QueueWorkers
from tests.support.chance import seeds
from tests.support.sessions import Connect, Session, one
from tests.support.verbs import dequeue, enqueue_many, fill, make_channel, set_queue, settle


def limit(session: Session, most: int, **settings: object) -> None:
    """Limit the queue as if that had been so for long: then the list of its leases is complete at the next dequeue."""
    set_queue(session, max_concurrency=most, **settings)
    session.execute("UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes'")
    fill(session, "default", 1)
    settle(session, dequeue(session))


def sides(session: Session) -> int:
    """Return how many sides have listed a lease."""
    return one(session, "SELECT count(DISTINCT side) FROM pgqueue_gate_side")


@pytest.mark.parametrize("most", [8, 9, 12])
def test_the_last_places_are_taken_at_the_gate(session: Session, most: int) -> None:
    limit(session, most)
    fill(session, "default", 20)

    assert sum(len(dequeue(session)) for _ in range(20)) == most
    assert not one(session, "SELECT pgqueue_is_contended('{default}')")


def total(session: Session, connect: Connect, calls: int) -> int:
    """Return how many messages are leased at the end under a limit of 12.

    Eight open transactions make so many calls, one after the other; then they make one more. Beside them a session
    takes many messages.
    """
    limit(session, 12)
    fill(session, "default", 60)
    others = [connect() for _ in range(8)]
    for rounds in (calls, 1):
        for _ in range(rounds):
            for other in others:
                dequeue(other)
        dequeue(session, 20)
        for other in others:
            other.commit()
    for _ in range(15):
        dequeue(session)
    dequeue(session, 20)
    return int(one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 2"))


@pytest.mark.parametrize("calls", [1, 3])
def test_all_places_are_given_and_no_more(session: Session, connect: Connect, calls: int) -> None:
    assert total(session, connect, calls) == 12


@pytest.mark.parametrize("most", [9, 11])
@pytest.mark.parametrize("seed", seeds(1))
def test_the_limit_is_never_exceeded(session: Session, connect: Connect, seed: int, most: int) -> None:
    for name in CHANNELS:
        make_channel(session, name)
    limit(session, most)
    enqueue_many(session, CHANNELS * 60)
    workers = QueueWorkers(seed, connect)

    workers.run()

    assert sides(session) > 1
