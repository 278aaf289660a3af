"""While the limit of a queue is far from full, dequeues of one message pass beside its gate; the limit stays exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.concurrency.queue_workers import CHANNELS, QueueWorkers
from tests.support.chance import seeds
from tests.support.sessions import Session, one
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


def test_an_open_dequeue_holds_up_no_other_one(session: Session, connect: Callable[..., Session]) -> None:
    limit(session, 20)
    fill(session, "default", 20)
    others = [connect() for _ in range(7)]

    assert [len(dequeue(other)) for other in others] == [1] * 7
    assert len(dequeue(session)) == 1
    assert len(dequeue(session, 5)) == 0, "many at once need the gate alone"
    for other in others:
        other.commit()
    assert sides(session) == 8
    assert len(dequeue(session, 20)) == 12, "the gate counts what was leased beside it"


def test_only_eight_pass_at_a_time(session: Session, connect: Callable[..., Session]) -> None:
    limit(session, 30)
    fill(session, "default", 20)
    others = [connect() for _ in range(9)]

    assert [len(dequeue(other)) for other in others] == [1] * 8 + [0]


def test_a_transaction_passes_once(session: Session, business: Session, other: Session) -> None:
    """The others count one lease of each side that is held."""
    limit(session, 20)
    fill(session, "default", 20)

    assert len(dequeue(business)) == 1
    assert len(dequeue(business)) == 1, "holding the gate"
    assert len(dequeue(other)) == 0
    business.commit()
    assert len(dequeue(other)) == 1


@pytest.mark.parametrize("most", [8, 9, 12])
def test_the_last_places_are_taken_at_the_gate(session: Session, most: int) -> None:
    limit(session, most)
    fill(session, "default", 20)

    assert sum(len(dequeue(session)) for _ in range(20)) == most
    assert not one(session, "SELECT pgqueue_is_contended('{default}')")


def total(session: Session, connect: Callable[..., Session], calls: int) -> int:
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
def test_all_places_are_given_and_no_more(session: Session, connect: Callable[..., Session], calls: int) -> None:
    assert total(session, connect, calls) == 12


@pytest.mark.parametrize("most", [9, 11])
@pytest.mark.parametrize("seed", seeds(1))
def test_the_limit_is_never_exceeded(session: Session, connect: Callable[..., Session], seed: int, most: int) -> None:
    for name in CHANNELS:
        make_channel(session, name)
    limit(session, most)
    enqueue_many(session, CHANNELS * 60)
    workers = QueueWorkers(seed, connect)

    workers.run()

    assert sides(session) > 1
