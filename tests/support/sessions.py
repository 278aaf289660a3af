"""Sessions of their own on the test database, by psycopg: nothing stands between a test and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg

from tests.support.waiting import eventually

Session = psycopg.Connection[Any]
# The fixture `connect`: `connect(autocommit=True)` opens one more session.
Connect = Callable[..., Session]
# A session that has to wait for a lock fails instead.
IMPATIENT = "-c lock_timeout=500ms -c statement_timeout=60s"
# A session whose enqueues wait for those before them for as long as a busy machine needs.
PATIENT = "-c pgqueue.enqueue_wait=120s"


def one(session: Session, statement: str, *parameters: Any) -> Any:
    """Return the first column of the only row, or None if there is no row."""
    row = session.execute(statement, parameters or None).fetchone()
    return None if row is None else row[0]


def column(session: Session, statement: str, *parameters: Any) -> list[Any]:
    """Return the first column of all rows."""
    return [row[0] for row in session.execute(statement, parameters or None).fetchall()]


def wait_for_lock(session: Session, other: Session) -> None:
    """Return as soon as the backend of ``other`` waits for a lock, as ``session`` sees it."""
    statement = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    pid = other.info.backend_pid
    eventually(lambda: one(session, statement, pid), seconds=60, every=0.005, problem="it does not wait")


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Run each action in a thread, all from one moment on. Returns their results, or raises the first error."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)
    errors: list[BaseException] = []

    def run(place: int, action: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[place] = action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a session hangs"
    return results


def until_it_waits(session: Session, other: Session, call: Callable[[], Any], then: Callable[[], Any]) -> Any:
    """Return what a call of ``other`` returns, which waits for a lock until ``then`` ends the wait."""

    def end() -> None:
        wait_for_lock(session, other)
        then()

    return together(call, end)[0]


def row_of(cursor: psycopg.Cursor[Any]) -> tuple[Any, ...]:
    """Return the first row of a statement that has one."""
    row = cursor.fetchone()
    assert row is not None, "the statement returns no row"
    return row
