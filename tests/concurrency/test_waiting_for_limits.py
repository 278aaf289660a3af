"""Messages that wait for a shared limit go on when it has room, whatever happens to others that wait beside them."""

from __future__ import annotations

import json
from datetime import timedelta

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


def test_it_does_not_matter_how_many_limits_are_full(session: Session) -> None:
    """A call looks at 16 of the limits that are waited for, at others each time."""
    limit_set(session, "first")
    names = [f"limit {number:02}" for number in range(40)]
    # Breakers of channels come and go, and use up ids.
    session.execute(
        "SELECT setval(pg_get_serial_sequence('pgqueue_limit', 'id'), 1000000 + max(id)) FROM pgqueue_limit"
    )
    for name in names:
        limit_set(session, name, max_concurrency=1)
        send(session, "a", 1, [name])
    for name in names[:-1]:
        session.execute("SELECT pgqueue_limit_pause(%s)", [name])
    last = one(session, "SELECT max(id) FROM pgqueue_message")

    found = [lease.id for _ in range(60) for lease in dequeue(session)]

    assert found == [last]


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


def test_a_worker_looks_again_for_a_limit_behind_many_full_ones(session: Session) -> None:
    wait_for_many(session, 60, make_channel(session, "many"))
    limit_set(session, "last", max_concurrency=1)
    send(session, "a", 1, ["last"])

    assert one(session, "SELECT pgqueue_is_contended('{default}')")


def test_a_tick_wakes_the_worker_of_a_message_behind_many_that_wait(session: Session, other: Session) -> None:
    """A settlement looks at the first 100 limits that are waited for, and notifies the queues of these only."""
    wait_for_many(session, 150, make_channel(session, "many"))
    make_channel(session, "a", queue="others")
    limit_set(session, "last", max_concurrency=1)
    first, second = [enqueue(session, "a", "others", limits=["last"]) for _ in range(2)]
    # A dequeue looks at 16 limits only.
    held = next(lease for _ in range(500) for lease in dequeue(session, queue="others"))
    assert held.id == first
    assert dequeue(session, queue="others") == []
    other.execute("LISTEN pgqueue")
    other.execute("SELECT pgqueue_wait('w', '{others}', '1 minute')")
    settle(session, [held])
    for _ in range(200):
        tick(session)

    assert [note.payload for note in other.notifies(timeout=5, stop_after=1)] == ["others"]
    assert [lease.id for lease in dequeue(session, queue="others")] == [second]


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


@pytest.mark.parametrize("many", ["messages", "channels"])
def test_a_worker_looks_again_for_a_message_behind_many_of_paused_channels(session: Session, many: str) -> None:
    names = ["many"] * 120 if many == "messages" else [f"many {number}" for number in range(120)]
    for name in sorted(set(names)):
        make_channel(session, name)
        session.execute("SELECT pgqueue_channel_pause('default', %s)", [name])
    make_channel(session, "late")
    limit_set(session, "stripe", max_concurrency=1)
    assert dequeue(session) == []
    for name in names:
        send(session, name)
    send(session, "late")
    if many == "channels":
        # A dequeue goes round them before its worker asks.
        session.execute("SELECT pgqueue_promote_waiting('default', 1, clock_timestamp())")

    assert one(session, "SELECT pgqueue_is_contended('{default}')")


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


def test_a_limit_that_was_dropped_is_not_waited_for(session: Session) -> None:
    """The lock of a limit is asked for ten times, a millisecond apart."""
    dropped = limit_set(session, "stripe", max_concurrency=1)
    assert one(session, "SELECT pgqueue_limit_drop('stripe')") == "dropped"

    def look() -> timedelta:
        began = one(session, "SELECT clock_timestamp()")
        assert one(session, "SELECT (pgqueue_hold_limit(%s, clock_timestamp(), true)).held", dropped)
        took: timedelta = one(session, "SELECT clock_timestamp() - %s", began)
        return took

    # The shortest of some: other programs only make it longer.
    assert min(look() for _ in range(9)) < timedelta(milliseconds=10)


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


def test_a_breaker_is_not_opened_without_an_end(session: Session) -> None:
    """The next time at which a worker looks could not be computed."""
    given = {"failures": 3, "within": "1 minute", "pause": "1 hour"}
    assert one(session, "SELECT outcome FROM pgqueue_breaker_set('work', %s)", json.dumps(given)) == "created"
    for moment in ("infinity", "2020-01-01"):
        opened = one(session, "SELECT outcome FROM pgqueue_breaker_open('work', p_until => %s)", moment)
        assert opened == "invalid"
    given["within"] = "400000 days"
    assert one(session, "SELECT outcome FROM pgqueue_breaker_set('work', %s)", json.dumps(given)) == "invalid"
