"""Listen for NOTIFY on the session of the producer, which spares a message the way through another session and thread.

The server process that gets the notification is the one that then runs the dequeue, and the thread that reads it sends
the dequeue.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pgqueue.sql.prepared import is_direct
from django_pgqueue.worker.fetch.alarm import Alarm
from django_pgqueue.worker.fetch.listener import CHECK_SECONDS, LISTEN, OPEN_BREAKERS, breaker_of, name_session

OnBreaker = Callable[[str, str | None, str | None], None]


class Ear:
    """Run LISTEN on each session that the producer's connection opens, unless it leads to a pooler.

    ``serves``, ``on_breaker``: as for a Listener. ``hear``: called on a notification for a queue that is served.
    ``deaf``: called when a session cannot listen, because there is a pooler in between. Only the thread of the producer
    uses it.
    """

    def __init__(
        self,
        *,
        serves: Callable[[str], bool],
        hear: Callable[[], None],
        on_breaker: OnBreaker,
        deaf: Callable[[], None],
    ) -> None:
        self._serves = serves
        self._hear = hear
        self._on_breaker = on_breaker
        self._deaf = deaf
        self._connection: BaseDatabaseWrapper | None = None
        self._session: psycopg.Connection[Any] | None = None

    def attach(self, connection: BaseDatabaseWrapper, worker: str) -> None:
        """Listen on each session that the connection opens from now on. ``worker``: its name."""
        self._connection = connection
        name_session(connection, worker)
        connect: Callable[[dict[str, Any]], psycopg.Connection[Any]] = connection.get_new_connection

        def get_new_connection(parameters: dict[str, Any]) -> psycopg.Connection[Any]:
            self._session = None
            session = connect(parameters)
            try:
                session.autocommit = True
                self._listen(session)
            except psycopg.Error:
                session.close()
                raise
            return session

        connection.get_new_connection = get_new_connection  # type: ignore[method-assign, assignment]  # for this session alone

    def _listen(self, session: psycopg.Connection[Any]) -> None:
        if not is_direct(session):
            self._deaf()
            return
        # A notification that comes in with the answer of a statement.
        session.add_notify_handler(lambda notice: self._take(notice.channel, notice.payload))
        session.execute(LISTEN)
        for opened in session.execute(OPEN_BREAKERS).fetchall():
            self._on_breaker(*opened)
        self._session = session

    @property
    def socket(self) -> int | None:
        """Return the file descriptor on which notifications arrive; None if the session does not listen."""
        session = self._session
        return None if session is None or session.closed else session.fileno()

    def read(self) -> None:
        """Read the notifications that have arrived while no statement ran. Raises the database's error."""
        session, connection = self._session, self._connection
        if session is None or connection is None:
            return
        with connection.wrap_database_errors:
            session.pgconn.consume_input()
            while notice := session.pgconn.notifies():
                self._take(notice.relname.decode(), notice.extra.decode())

    def check(self) -> None:
        """Ask whether the server is still there. Raises the database's error."""
        if self._session is not None and self._connection is not None:
            with self._connection.wrap_database_errors:
                self._session.execute("SELECT 1")

    def _take(self, channel: str, payload: str) -> None:
        if channel == "pgqueue" and self._serves(payload):
            self._hear()
        elif channel == "pgqueue_breaker" and (opened := breaker_of(payload)) is not None:
            self._on_breaker(*opened)


def doze(alarm: Alarm, ear: Ear | None, seconds: float) -> None:
    """Sleep up to ``seconds``, until the alarm is set. Raises the database's error if the session of ``ear`` breaks."""
    deadline = time.monotonic() + seconds
    while not alarm.is_set() and (left := deadline - time.monotonic()) > 0:
        if ear is None or (socket := ear.socket) is None:
            alarm.wait(left)
        elif alarm.wait(min(left, CHECK_SECONDS), socket):
            ear.read()
        elif left > CHECK_SECONDS and not alarm.is_set():
            ear.check()
