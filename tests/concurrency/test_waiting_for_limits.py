"""Messages that wait for a shared limit go on when it has room, whatever happens to others that wait beside them."""

from __future__ import annotations

import pytest

from tests.concurrency.rates import UNBOUND
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send, settle, tick


@pytest.fixture(autouse=True)
def channels(session: Session) -> None:
    make_channel(session, "a")


def test_one_that_was_made_ready_and_is_put_off_keeps_no_place(session: Session) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    [first, second, third] = send(session, "a", 3)
    [held] = dequeue(session)
    settle(session, [held])
    tick(session)
    assert (held.id, one(session, "SELECT id FROM pgqueue_message WHERE promoted_for > 0")) == (first, second)

    put_off = "SELECT outcome FROM pgqueue_reschedule(%s, clock_timestamp() + interval '1 day')"
    assert one(session, put_off, [second]) == "rescheduled"

    assert [lease.id for lease in dequeue(session)] == [third]


def wait_for_many(session: Session, count: int, channel: int) -> None:
    """So many paused limits, each with a message of the channel that waits for it."""
    session.execute(
        "INSERT INTO pgqueue_limit (name, max_concurrency, paused_at)"
        " SELECT 'paused ' || n, 1, clock_timestamp() FROM generate_series(1, %s) AS n",
        [count],
    )
    session.execute(
        "INSERT INTO pgqueue_message (channel_id, handler, limits)"
        " SELECT %s, 'work', ARRAY[l.id] FROM pgqueue_limit AS l WHERE l.paused_at IS NOT NULL",
        [channel],
    )
    session.execute("UPDATE pgqueue_message SET status = 3, waits_for = limits[1] WHERE limits IS NOT NULL")
    # The line forgets that they were ready.
    assert [dequeue(session) for _ in range(3)] == [[], [], []]
    assert not one(session, "SELECT pgqueue_is_contended('{default}')")


def test_the_last_of_more_than_a_thousand_limits_has_its_turn(session: Session) -> None:
    """Breakers of channels may be as many."""
    wait_for_many(session, 1100, make_channel(session, "many"))
    limit_set(session, "last", max_concurrency=1)
    [message] = send(session, "a", 1, ["last"])
    looks = 0
    while not one(session, "SELECT pgqueue_promote_waiting(NULL, 10, clock_timestamp())"):
        looks += 1
        assert looks < 3000

    assert [lease.id for lease in dequeue(session)] == [message]


def test_a_settlement_wakes_the_worker_of_a_message_behind_many_of_one_channel(
    session: Session, other: Session
) -> None:
    """The workers of that channel are busy. They would take each free place, before a tick sees it."""
    make_channel(session, "many")
    make_channel(session, "late", queue="others")
    limit_set(session, "stripe", max_concurrency=1)
    send(session, "many", 121)
    [late] = send(session, "late", queue="others")
    held = dequeue(session)
    other.execute("LISTEN pgqueue")
    other.execute("SELECT pgqueue_wait('w', '{others}', '1 minute')")

    settle(session, held)

    assert [note.payload for note in other.notifies(timeout=5, stop_after=1)] == ["others"]
    assert [lease.id for lease in dequeue(session, queue="others")] == [late]


def test_those_of_another_queue_that_were_made_ready_take_only_their_places(session: Session) -> None:
    """Also from a dequeue of one message."""
    make_channel(session, "a", queue="others")
    limit_set(session, "stripe", max_concurrency=5)
    for _ in range(2):
        enqueue(session, "a", "others", limits=["stripe"])
    tick(session)
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE promoted_for > 0") == 2

    [new] = send(session, "a")

    assert [lease.id for lease in dequeue(session)] == [new]


def test_a_debt_of_a_million_years_keeps_no_worker_awake(session: Session) -> None:
    session.execute(UNBOUND)
    limit_set(session, "stripe", release_interval="1 day")
    [huge] = send(session, "a", cost=2_000_000_000)
    assert [lease.id for lease in dequeue(session)] == [huge]
    [waiting] = send(session, "a")
    assert dequeue(session) == []

    assert one(session, "SELECT pgqueue_next_due('{default}') > interval '900 years'")
    explained = one(session, "SELECT array_agg(code) FROM pgqueue_explain_message(%s)", waiting)
    assert "shared_limit_rate" in explained
