"""C7: release_interval and release_burst hold exactly at every commit, redeliveries included."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.concurrency.limited_workers import LimitedWorkers
from tests.support.chance import seeds
from tests.support.sessions import Connect, Session, column, together, wait_for_lock
from tests.support.verbs import dequeue, enqueue, fill, make_channel, tick


def gaps(session: Session) -> list[float]:
    """Seconds between successive leases, as the database wrote them."""
    return [
        (b - a).total_seconds() for a, b in pairwise(column(session, "SELECT leased_at FROM audit ORDER BY leased_at"))
    ]


def assert_no_more(session: Session, interval: float, burst: int, least: int) -> None:
    """Token bucket: in every window, no more leases than the burst and what has trickled in since."""
    moments = column(session, "SELECT leased_at FROM audit ORDER BY leased_at")
    # From the first one on: a timestamp of today has no exact microseconds as a float.
    times = [(moment - moments[0]).total_seconds() for moment in moments]
    assert len(times) >= least
    if burst == 1:
        assert min(gaps(session)) >= interval
    for start in range(len(times)):
        for end in range(start, len(times)):
            assert end - start + 1 <= burst + (times[end] - times[start]) / interval + 1e-6


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("seed", seeds(1))
def test_a_rate_is_never_exceeded(session: Session, connect: Connect, audit: None, burst: int, seed: int) -> None:
    """Redeliveries count. With a burst of one, no gap is shorter than the interval: tolerance zero."""
    make_channel(session, "slow", release_interval="15 ms", release_burst=burst)
    make_channel(session, "busy")
    for _ in range(30):
        enqueue(session, "slow", max_attempts=1000)
        enqueue(session, "busy", max_attempts=1000)

    LimitedWorkers(seed, connect).run()

    session.execute("DELETE FROM audit WHERE channel_id = (SELECT id FROM pgqueue_channel WHERE name = 'busy')")
    assert_no_more(session, 0.015, burst, least=30)


def test_a_slow_dequeue_does_not_shorten_the_next_gap(session: Session, connect: Connect, audit: None) -> None:
    """The rate counts from the moment of the lease, not from the moment when the call began."""
    make_channel(session, "slow", release_interval="400 ms")
    fill(session, "slow", 2)
    tick(session)
    holder, walker = connect(), connect(autocommit=True)
    holder.execute("ALTER SEQUENCE pgqueue_lane_seq OWNED BY NONE")

    def release() -> None:
        wait_for_lock(session, walker)
        session.execute("SELECT pg_sleep(0.3)")
        holder.rollback()

    together(lambda: dequeue(walker, 1), release)
    while not dequeue(session, 1):
        pass

    assert min(gaps(session)) >= 0.4


def test_an_interval_that_is_shortened_holds_at_once(session: Session) -> None:
    make_channel(session, "slow", release_interval="1 hour")
    fill(session, "slow", 3)
    assert len(dequeue(session, 5)) == 1
    assert dequeue(session, 5) == []

    make_channel(session, "slow", release_interval="1 ms")

    taken = 0
    for _ in range(20):
        taken += len(dequeue(session, 5))
        session.execute("SELECT pg_sleep(0.002)")
    assert taken == 2


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("limits", ["{}", '{"max_concurrency": 90}'], ids=["turns", "queue with a limit"])
def test_a_channel_whose_time_has_come_is_served_within_one_round(session: Session, limits: str, limit: int) -> None:
    """With a burst of one, each round that passes is lost for the rate."""
    session.execute("SELECT pgqueue_queue_set('default', %s)", [limits])
    make_channel(session, "slow", release_interval="1 ms", release_burst=1)
    make_channel(session, "busy")
    fill(session, "slow", 20)
    fill(session, "busy", 100)
    for _ in range(10):
        session.execute("SELECT pg_sleep(0.002)")
        assert "slow" in {lease.channel for _ in range(2) for lease in dequeue(session, limit)}
