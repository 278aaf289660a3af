"""Dequeues of several sessions bring back expired leases and due messages; no sweep and no tick runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.chance import STRESS
from tests.support.sessions import Connect, Session, column, one, together
from tests.support.verbs import dequeue, enqueue, enqueue_many, make_channel, settle, tick

EXPIRED = "1 microsecond"


def enqueue_impatient(session: Session, count: int) -> list[int]:
    make_channel(session, "a")
    return [enqueue(session, "a", backoff="0", max_attempts=1000) for _ in range(count)]


def test_one_of_two_sessions_gets_it(session: Session, business: Session) -> None:
    [message] = enqueue_impatient(session, 1)
    dequeue(session, lease=EXPIRED)
    [first] = dequeue(business)
    assert (first.id, first.attempts) == (message, 2)
    assert dequeue(session) == [], "the other has it, and the call does not wait"
    business.rollback()
    [second] = dequeue(session)
    assert (second.id, second.attempts) == (message, 2), "what was rolled back never was"


def test_a_settlement_under_way_wins(session: Session, business: Session) -> None:
    enqueue_impatient(session, 1)
    [lease] = dequeue(session, lease=EXPIRED)
    settle(business, [lease])
    assert dequeue(session) == []
    business.commit()
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 0


@pytest.mark.parametrize("seed", range(3 * STRESS))
def test_many_sessions_race_for_what_expired(session: Session, connect: Connect, seed: int) -> None:
    messages = enqueue_impatient(session, 60)
    dequeue(session, 60, lease=EXPIRED)

    def consume(one_session: Session) -> Callable[[], list[tuple[int, int]]]:
        def run() -> list[tuple[int, int]]:
            got = []
            for limit in [1, 5, 10] * 10:
                leases = dequeue(one_session, limit)
                got += [(lease.id, lease.attempts) for lease in leases]
                settle(one_session, leases)
            return got

        return run

    found = [pair for each in together(*[consume(connect(autocommit=True)) for _ in range(3)]) for pair in each]
    assert sorted(found) == [(message, 2) for message in messages]


@pytest.mark.parametrize("what", ["lease", "schedule"])
def test_a_lease_or_promotion_that_a_long_transaction_commits_late_is_above_the_floor(
    session: Session, business: Session, what: str
) -> None:
    """Ticks move the floors while it is open; its lease has expired, or its message has come due, by the commit."""
    make_channel(session, "a")
    if what == "lease":
        enqueue(session, "a", backoff="0")
        assert len(dequeue(business, lease="1 millisecond")) == 1
    else:
        enqueue(business, "a", delay="1 millisecond")
    for _ in range(4):
        session.execute("SELECT pg_sleep(0.005)")
        tick(session)
    business.commit()
    assert len(dequeue(session)) == 1


def test_a_floor_of_the_future_hides_nothing(session: Session) -> None:
    """The clock was set back."""
    make_channel(session, "a")
    enqueue(session, "a", backoff="0")
    dequeue(session, lease="1 millisecond")
    session.execute(
        "UPDATE pgqueue_floor SET expiry_from = clock_timestamp() + interval '1 hour',"
        " due_from = clock_timestamp() + interval '1 hour', watched_at = clock_timestamp() + interval '1 hour',"
        " ticked_at = clock_timestamp() + interval '1 hour'"
    )
    session.execute("SELECT pg_sleep(0.002)")
    assert len(dequeue(session, lease="1 millisecond")) == 1
    tick(session)
    session.execute("SELECT pg_sleep(0.002)")
    assert len(dequeue(session)) == 1


def visits(session: Session, plans: list[dict[str, Any]]) -> int:
    """Pages that the look of an empty dequeue reads."""
    plans.clear()
    assert dequeue(session, 5) == []
    [look] = [plan for plan in plans if "n.expired" in plan["Query Text"]]
    return int(look["Plan"]["Shared Hit Blocks"] + look["Plan"]["Shared Read Blocks"])


@pytest.mark.auto_explain
def test_dead_leases_do_not_make_the_look_longer(
    session: Session, connect: Connect, record_plans: Callable[[Session], list[dict[str, Any]]]
) -> None:
    """C10: a dump holds the horizon, so the leases and schedules that are over stay in their indexes."""
    make_channel(session, "a")
    dump = connect()
    dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    dump.execute("SELECT 1 FROM pgqueue_message")
    for _ in range(10):
        enqueue_many(session, ["a"] * 200)
        leases = dequeue(session, 200, lease="1 millisecond")
        settle(session, leases, "defer", None, ["0.001"] * len(leases))
        session.execute("SELECT pg_sleep(0.002)")
        settle(session, dequeue(session, 200))
        settle(session, dequeue(session, 1000))
    assert column(session, "SELECT count(*) FROM pgqueue_message") == [0]
    plans = record_plans(session)
    session.execute("SET auto_explain.log_buffers = on")
    before = visits(session, plans)
    session.execute("SET auto_explain.log_min_duration = -1")
    tick(session, 4)
    session.execute("SET auto_explain.log_min_duration = 0")
    after = visits(session, plans)
    assert after <= 12 < before


def test_a_pop_in_an_open_transaction_holds_nothing_of_other_queues(session: Session, business: Session) -> None:
    for queue in "ab":
        make_channel(session, "default", queue)
    leased = enqueue(session, queue="b", backoff="0")
    dequeue(session, queue="b", lease=EXPIRED)
    message = enqueue(session, queue="b", delay="10 milliseconds")
    session.execute("SELECT pg_sleep(0.02)")
    assert business.execute("SELECT id FROM pgqueue_pop('a')").fetchall() == []
    assert {got.id for got in dequeue(session, 10, queue="b")} == {message, leased}


def test_a_sweep_goes_on_behind_what_another_transaction_holds(session: Session, business: Session) -> None:
    messages = enqueue_many(session, ["default"] * 1001)
    assert len(dequeue(session, 1001, lease=EXPIRED)) == len(messages)
    held = business.execute(
        "SELECT id FROM pgqueue_message ORDER BY lease_expires_at, id LIMIT 1000 FOR UPDATE"
    ).fetchall()
    assert len(held) == 1000
    assert one(session, "SELECT retried FROM pgqueue_sweep()") == 1
