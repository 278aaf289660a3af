"""The rate of a queue, and how a worker learns that a queue with limits may be served again."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.concurrency.queue_workers import CHANNELS, QueueWorkers
from tests.concurrency.test_rates import assert_no_more
from tests.support.chance import seeds
from tests.support.sessions import Connect, Session, one
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, retry, set_queue, settle


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("seed", seeds(1))
def test_a_rate_is_never_exceeded(session: Session, connect: Connect, audit: None, burst: int, seed: int) -> None:
    """All channels together, redeliveries included. With a burst of one, no gap is shorter than the interval."""
    for name in CHANNELS:
        make_channel(session, name)
    set_queue(session, release_interval="15 ms", release_burst=burst)
    enqueue_many(session, CHANNELS * 12)

    QueueWorkers(seed, connect).run()

    assert_no_more(session, 0.015, burst, least=36)


def test_a_worker_learns_when_the_rate_allows_a_message(session: Session) -> None:
    set_queue(session, release_interval="1 hour", release_burst=2)
    fill(session, "default", 5)
    assert len(drain(session, 1)) == 2
    assert dequeue(session) == []

    assert not one(session, "SELECT pgqueue_is_contended('{default}')")
    assert one(session, "SELECT pgqueue_next_due('{default}') BETWEEN '59 minutes' AND '1 hour'")
    set_queue(session, release_interval="1 ms")
    taken = 0
    for _ in range(20):
        taken += len(dequeue(session, 5))
        session.execute("SELECT pg_sleep(0.002)")
    assert taken == 3, "the shorter interval holds at once"


def test_a_worker_sleeps_while_the_queue_is_full(session: Session) -> None:
    set_queue(session, max_concurrency=1)
    fill(session, "default", 5)
    leases = dequeue(session)
    assert not one(session, "SELECT pgqueue_is_contended('{default}')")
    settle(session, leases)
    assert one(session, "SELECT pgqueue_is_contended('{default}')")


@pytest.mark.parametrize("verb", ["complete", "defer", "dead_letter", "retry"])
def test_a_settlement_wakes_a_worker_that_sleeps(session: Session, other: Session, verb: str) -> None:
    set_queue(session, max_concurrency=1)
    fill(session, "default", 5)
    leases = dequeue(session)
    other.execute("LISTEN pgqueue")
    other.execute("SELECT pgqueue_wait('w', '{default}', '1 minute')")
    match verb:
        case "dead_letter":
            settle(session, leases, verb, ["a test"])
        case "retry":
            retry(session, leases, "1 hour")
        case _:
            settle(session, leases, verb)

    assert [note.payload for note in other.notifies(timeout=5, stop_after=1)] == ["default"]


def test_a_new_limit_wakes_a_worker_that_sleeps(session: Session, other: Session) -> None:
    set_queue(session, max_concurrency=1)
    other.execute("LISTEN pgqueue")
    other.execute("SELECT pgqueue_wait('w', '{default}', '1 minute')")
    session.execute("UPDATE pgqueue_queue SET max_concurrency = 2 WHERE name = 'default'")

    assert [note.payload for note in other.notifies(timeout=5, stop_after=1)] == ["default"]


def test_a_channel_at_its_own_limit_leaves_its_places_to_others(session: Session) -> None:
    for name in ("a", "b"):
        make_channel(session, name)
    make_channel(session, "a", max_concurrency=1)
    set_queue(session, max_concurrency=4)
    enqueue_many(session, ["a", "b"] * 6)

    assert Counter(lease.channel for _ in range(4) for lease in dequeue(session)) == {"a": 1, "b": 3}


def test_the_list_of_leases_does_not_grow(session: Session) -> None:
    set_queue(session, max_concurrency=3)
    session.execute("UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes'")
    fill(session, "default", 60)
    for _ in range(20):
        settle(session, dequeue(session, 3))

    assert one(session, "SELECT cardinality(held) FROM pgqueue_gate") == 3


def test_the_gate_of_a_queue_that_is_gone_goes(session: Session) -> None:
    set_queue(session, max_concurrency=3)
    enqueue(session)
    settle(session, dequeue(session))
    session.execute("DELETE FROM pgqueue_queue")
    session.execute("SELECT pgqueue_prune_line()")

    assert one(session, "SELECT count(*) FROM pgqueue_gate") == 0
