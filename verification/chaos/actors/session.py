"""Hold a session that connects again, and record how each call ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from verification.chaos.history import Call

T = TypeVar("T")
ERRORS = {"PGQ02": "lease lost", "PGQ04": "channel full"}
# The server says that it ends the session: what it was doing may be committed.
ENDING = ("57P", "08", "XX000")


class ChaosConnection(psycopg.Connection[Any]):
    """A connection that knows whether its user began a transaction."""

    chaos_open = False


class ActorSession:
    """Hold one connection to ``url``, and connect again when it broke. Not for several threads.

    ``broke``: whether the last call ended without an answer of the queue's.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: ChaosConnection | None = None
        self.broke = False

    def call(self, call: Call, work: Callable[[ChaosConnection], T]) -> T | None:
        """Run the work, which ends the call with ok; any other end is recorded here. None: it failed."""
        try:
            self.broke = False
            session = self.connection()
        except psycopg.Error as error:
            self.broke = True
            call.fail(f"no connection: {first_line(error)}")
            time.sleep(0.1)
            return None
        try:
            return work(session)
        except psycopg.Error as error:
            state = error.sqlstate or ""
            self.broke = not state.startswith("PGQ")
            # In an explicit transaction nothing is committed before COMMIT was sent.
            committing = not session.chaos_open
            # A backend that panics reports why, and its last writes may or may not be on the disk.
            ended = not state or state.startswith(ENDING) or error.diag.severity_nonlocalized in ("FATAL", "PANIC")
            if ended and committing:
                call.unknown(first_line(error))
            else:
                call.fail(ERRORS.get(state, state or "connection lost before the commit"))
            self._recover(session)
            return None

    def connection(self) -> ChaosConnection:
        if self._connection is None or self._connection.closed:
            self._connection = ChaosConnection.connect(
                self._url, autocommit=True, application_name=self._name, prepare_threshold=None, connect_timeout=10,
                keepalives_idle=2, keepalives_interval=1, keepalives_count=3, tcp_user_timeout=5000,
            )  # fmt: skip
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _recover(self, session: ChaosConnection) -> None:
        session.chaos_open = False
        try:
            session.execute("ROLLBACK")
        except psycopg.Error:
            self.close()


class Transaction:
    """`with Transaction(session) as transaction: …; transaction.commit()`, else it is rolled back."""

    def __init__(self, session: ChaosConnection) -> None:
        self._session = session

    def __enter__(self) -> Transaction:
        self._session.chaos_open = True
        self._session.execute("BEGIN")
        return self

    def commit(self) -> None:
        self._session.chaos_open = False
        self._session.execute("COMMIT")

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None and self._session.chaos_open:
            self._session.execute("ROLLBACK")
            self._session.chaos_open = False


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
