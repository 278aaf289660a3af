"""The next turn pays what a message cost more or less than was foreseen; no sum of sessions spends more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.concurrency.rates import HOUR, UNBOUND, Rated, spend, taken
from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, column, one, together
from tests.support.verbs import dequeue, enqueue, make_channel, set_queue, settle, tick


def test_a_debt_is_paid_before_the_next_message_starts(session: Session, rated: Rated) -> None:
    rated("10 milliseconds", 5)
    ids = [enqueue(session, "a", cost=cost) for cost in (50, 1)]

    moments = []
    ends = time.monotonic() + 20
    while len(moments) < 2 and time.monotonic() < ends:
        moments += [
            one(session, "SELECT leased_at FROM pgqueue_message WHERE id = %s", lease.id) for lease in dequeue(session)
        ]

    assert column(session, "SELECT id FROM pgqueue_message ORDER BY leased_at") == ids
    assert (moments[1] - moments[0]).total_seconds() >= 0.46, "45 tokens of debt, and one for the message"


def test_a_debt_is_forgotten_by_no_later_dequeue(session: Session, rated: Rated) -> None:
    """The time of the bucket is bounded, so that a shorter interval holds at once; the debt is not cut off by that."""
    session.execute(UNBOUND)
    rated(HOUR, 2)
    enqueue(session, "a", cost=1000)
    enqueue(session, "a")
    assert len(taken(session)) == 1

    rated("1 minute", 2)

    assert taken(session) == []
    due = one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
    assert due == pytest.approx(999 * 60, abs=60), "1,000 tokens, less those of the bucket, and one for the next"


def test_a_cost_beyond_all_times_breaks_nothing(session: Session, rated: Rated) -> None:
    session.execute(UNBOUND)
    rated("1 day", 1)
    enqueue(session, "a", cost=2**31 - 1)
    enqueue(session, "a")
    [lease] = dequeue(session)

    assert taken(session) == []
    assert spend(session, lease, 1) == 2**31 - 1
    tick(session)
    taken(session, 10)
    assert one(session, "SELECT count(*) FROM pgqueue_limit_health()") <= 1


def test_the_next_turn_pays_what_a_message_cost_more(session: Session, rated: Rated) -> None:
    session.execute(UNBOUND)
    rated(HOUR, 10)
    for _ in range(3):
        enqueue(session, "a")
    [first] = dequeue(session)

    assert spend(session, first, 9) == 1
    [second] = dequeue(session)
    assert spend(session, second, 500) == 1

    assert taken(session) == []


def test_the_next_turn_finds_what_a_message_cost_less(session: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    enqueue(session, "a", cost=10)
    [lease] = dequeue(session)
    ids = [enqueue(session, "a", cost=cost) for cost in (5, 4, 1)]
    assert taken(session) == []

    assert spend(session, lease, 1) == 10

    assert taken(session) == ids[:2]
    assert one(session, "SELECT count(*) FROM pgqueue_spent") == 0, "it is given back once"


def test_a_correction_is_paid_once(session: Session, rated: Rated) -> None:
    rated(HOUR, 20)
    ids = [enqueue(session, "a") for _ in range(12)]
    [lease] = dequeue(session)
    spend(session, lease, 10)
    tick(session)

    assert taken(session, 3) == ids[1:11]


def test_a_queue_is_dropped_beside_a_dequeue_that_takes_its_corrections(session: Session, business: Session) -> None:
    make_channel(session, "a", queue="gone")
    set_queue(session, "gone", release_interval=HOUR, release_burst=10)
    session.execute("INSERT INTO pgqueue_spent (queue, cost) VALUES ('gone', 1), ('gone', 2)")
    business.execute("DELETE FROM pgqueue_spent WHERE queue = 'gone' AND cost = 1")

    assert one(session, "SELECT outcome FROM pgqueue_queue_drop('gone')") == "dropped", "it does not wait"
    business.commit()
    assert one(session, "SELECT count(*) FROM pgqueue_spent") == 0


@pytest.mark.parametrize("seed", seeds(1))
def test_workers_together_never_spend_more_than_the_rate(
    session: Session, connect: Connect, audit: None, rated: Rated, seed: int
) -> None:
    """In every window: the burst, and what has trickled in since. No message costs more than the burst."""
    interval, burst = 0.002, 12
    rated("2 milliseconds", burst)
    chance = Chance(seed, "costs")
    for _ in range(120):
        enqueue(session, "a", cost=chance.random.choice([None, 1, 2, 5, 12]))
    sessions = [connect(autocommit=True) for _ in range(4)]
    left = threading.Event()

    def work(place: int) -> Callable[[], None]:
        def run() -> None:
            mine = Chance(seed, f"worker {place}")
            ends = time.monotonic() + 150
            while not left.is_set() and time.monotonic() < ends:
                settle(sessions[place], dequeue(sessions[place], mine.random.choice([1, 1, 4])))
                if place == 0 and not one(sessions[place], "SELECT count(*) FROM pgqueue_message"):
                    left.set()
                mine.pause(0.003)

        return run

    together(*(work(place) for place in range(4)))

    rows = session.execute("SELECT leased_at, cost FROM audit ORDER BY leased_at").fetchall()
    times = [(leased_at - rows[0][0]).total_seconds() for leased_at, _ in rows]
    assert len(rows) == 120
    for start in range(len(rows)):
        spent = 0
        for end in range(start, len(rows)):
            spent += rows[end][1]
            assert spent <= burst + (times[end] - times[start]) / interval + 1e-6
    assert column(session, "SELECT id FROM pgqueue_message") == []
