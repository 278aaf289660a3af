"""An event and a wait for it, between sessions: whichever comes first, the message goes on, once."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg
import pytest

from tests.flow.settling import Taken, in_background, take
from tests.support.sessions import Connect, Session, column, one, together, wait_for_lock
from tests.support.tables import empty_tables


@pytest.fixture(autouse=True)
def empty_line(transactional_db: None) -> None:
    empty_tables()


PAUSE = "SELECT outcome FROM pgqueue_step_pause(%s, %s, 'wait', 'x', '1 day', p_skip_lost => %s)"
NOTIFY = "SELECT pgqueue_notify_event('x', '7')"
DECIDE = "SELECT pgqueue_step_event(%s, %s, 'x')"


def taken(session: Session, count: int = 1) -> Taken:
    session.execute("SELECT pgqueue_enqueue('job') FROM generate_series(1, %s)", [count])
    return take(session, count)


def pause(session: Session, message: tuple[int, Any], skip_lost: bool = False) -> list[Any]:
    return column(session, PAUSE, *message, skip_lost)


def decide(session: Session) -> list[Any]:
    """Return what a worker that gets the message now finds: [] if it would wait."""
    [message] = take(session, 1)
    return column(session, DECIDE, *message)


def ready(session: Session) -> int:
    found: int = one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1")
    return found


def test_an_event_that_is_notified_while_the_wait_is_written(session: Session, transactions: list[Session]) -> None:
    [message] = taken(session)
    waits, notifies, _ = transactions
    pause(waits, message)

    def notify() -> None:
        notifies.execute(NOTIFY)
        notifies.commit()

    with in_background(notify):
        wait_for_lock(session, notifies)
        waits.commit()
    assert decide(session) == [7]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_wait_that_is_written_while_an_event_is_notified(
    session: Session, transactions: list[Session], end: str
) -> None:
    """A worker must not wait for the other transaction: the message comes back in a second."""
    [message] = taken(session)
    transactions[0].execute(NOTIFY)
    session.execute("SET statement_timeout = '2s'")
    assert pause(session, message) == ["deferred"]
    assert column(session, "SELECT name FROM pgqueue_step") == []
    due = "SELECT dequeue_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 s' FROM pgqueue_message"
    assert one(session, due)
    getattr(transactions[0], end)()
    session.execute("SELECT pgqueue_reschedule(%s)", [[message[0]]])
    assert decide(session) == ([7] if end == "commit" else [])


def test_an_event_that_is_rolled_back_wakes_nobody_and_the_next_one_does(
    session: Session, transactions: list[Session]
) -> None:
    [message] = taken(session)
    pause(session, message)
    transactions[0].execute(NOTIFY)
    transactions[0].rollback()
    assert ready(session) == 0
    assert one(session, NOTIFY)
    assert decide(session) == [7]


def test_two_notify_at_once_and_one_is_the_first(session: Session, transactions: list[Session]) -> None:
    first, second, _ = transactions
    first.execute(NOTIFY)
    found = []

    def notify() -> None:
        found.append(one(second, NOTIFY))
        second.commit()

    with in_background(notify):
        wait_for_lock(session, second)
        first.commit()
    assert found == [False]


def test_a_message_that_another_transaction_holds_is_woken_by_the_sweep(
    session: Session, transactions: list[Session]
) -> None:
    [message] = taken(session)
    pause(session, message)
    transactions[0].execute("SELECT FROM pgqueue_message FOR UPDATE")
    session.execute("SET statement_timeout = '2s'")
    assert one(session, NOTIFY)
    assert ready(session) == 0
    transactions[0].rollback()
    session.execute("SELECT pgqueue_sweep()")
    assert decide(session) == [7]
    assert one(session, "SELECT count(*) FROM pgqueue_event_unsure") == 0


@pytest.mark.parametrize("who", ["waits", "notifies"])
def test_an_old_snapshot_misses_nothing(session: Session, transactions: list[Session], who: str) -> None:
    """Under REPEATABLE READ a transaction does not see what was committed since it began; the next sweep does."""
    [message] = taken(session)
    old = transactions[0]
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    old.execute("SELECT count(*) FROM pgqueue_message")
    if who == "waits":
        session.execute(NOTIFY)
        pause(old, message)
    else:
        pause(session, message)
        old.execute(NOTIFY)
    old.commit()
    session.execute("SELECT pgqueue_sweep()")
    assert decide(session) == [7]


def test_a_lost_lease_neither_waits_nor_decides(session: Session) -> None:
    [message] = taken(session)
    session.execute("SELECT pgqueue_lease_release(%s)", [[message[0]]])
    assert pause(session, message, skip_lost=True) == []
    for lost in (pause, lambda *_: column(session, DECIDE, *message)):
        with pytest.raises(psycopg.Error, match="the lease is lost"):
            lost(session, message)
    assert column(session, "SELECT name FROM pgqueue_step") == []


def test_a_pause_that_is_repeated_after_a_broken_connection(session: Session) -> None:
    [message] = taken(session)
    assert pause(session, message, skip_lost=True) == ["deferred"]
    assert pause(session, message, skip_lost=True) == ["retried"]
    assert column(session, "SELECT name FROM pgqueue_step") == ["x"]


@pytest.mark.parametrize("victim", ["waits", "notifies"])
def test_a_session_that_is_killed_before_its_commit_leaves_nothing(
    session: Session, transactions: list[Session], victim: str
) -> None:
    [message] = taken(session)
    killed = transactions[0]
    if victim == "waits":
        pause(killed, message)
    else:
        pause(session, message)
        killed.execute(NOTIFY)
    session.execute("SELECT pg_terminate_backend(%s, 10000)", [killed.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        killed.commit()
    if victim == "waits":
        assert one(session, "SELECT status FROM pgqueue_message") == 2
        assert pause(session, message) == ["deferred"]
    assert one(session, NOTIFY)
    assert decide(session) == [7]


def test_hundreds_wait_and_are_notified_at_once(session: Session, connect: Connect) -> None:
    """Each goes on, whether it came before its event, after it, or at the same moment."""
    messages = taken(session, 200)
    sessions = [connect(autocommit=True) for _ in range(4)]

    def wait(number: int) -> None:
        for place, (id_, token) in enumerate(messages[number::2]):
            sessions[number].execute(
                "SELECT pgqueue_step_pause(%s, %s, 'wait', %s, '1 day')", [id_, token, f"e{place % 10}"]
            )

    def notify(number: int) -> None:
        for place in range(10):
            sessions[2 + number].execute("SELECT pgqueue_notify_event(%s)", [f"e{(place + number * 5) % 10}"])

    together(*(partial(wait, n) for n in range(2)), *(partial(notify, n) for n in range(2)))
    # Those that came while a notification was open ask again after a second.
    later = "NOT EXISTS (SELECT FROM pgqueue_step AS s WHERE s.message_id = m.id)"
    assert column(session, f"SELECT m.id FROM pgqueue_message AS m WHERE m.status <> 1 AND NOT {later}") == []
    assert one(session, "SELECT count(*) FROM pgqueue_step WHERE value IS NULL") == 0


def test_it_waits_for_another_notification_no_longer_than_an_enqueue(transactions: list[Session]) -> None:
    first, second, _ = transactions
    first.execute(NOTIFY)
    second.execute("SET LOCAL pgqueue.enqueue_wait = '50 ms'")
    with pytest.raises(psycopg.Error, match=r'the event "x" is busy') as caught:
        second.execute(NOTIFY)
    assert caught.value.sqlstate == "PGQ06"
    second.rollback()
    first.commit()
    assert one(second, NOTIFY) is False
