"""Listen for NOTIFY and end the sleep of the producer. Without that, messages start up to a poll interval later.

Mostly the session of the producer listens, which spares a message the way through another session and thread: the
server process that gets the notification is the one that then runs the dequeue, and the thread that reads it sends the
dequeue. A :class:`Listener` has a session and a thread of its own.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pgqueue.backoff import pause
from django_pgqueue.sql.prepared import is_direct
from django_pgqueue.sql.stall import limit_answer_time
from django_pgqueue.worker import numbers
from django_pgqueue.worker.database import LISTENER, without_pool
from django_pgqueue.worker.runtime import Role, Shared
from django_pgqueue.worker.shutdown import Alarm

LISTEN = "LISTEN pgqueue; LISTEN pgqueue_breaker"
OPEN_BREAKERS = """
SELECT l.breaker_handler, c.queue, c.name FROM pgqueue_limit AS l LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
WHERE l.open_until IS NOT NULL
"""
logger = logging.getLogger("django_pgqueue.worker")

# Takes handler, queue and channel of a breaker that has opened; the last two are None for a handler's.
OnBreaker = Callable[[str, str | None, str | None], None]


class Ear:
    """Run LISTEN on each session that a connection opens, and tell what is heard.

    ``serves``: returns whether the worker serves a queue. ``hear``: called on a notification for such a queue.
    ``on_breaker``: called with handler, queue and channel when a breaker opens, and with those that are open when a
    session begins to listen; queue and channel are None for a handler's. ``deaf``: called instead of LISTEN when there
    is a pooler in between; None: tried all the same. Only one thread uses an ear.
    """

    def __init__(
        self,
        *,
        serves: Callable[[str], bool],
        hear: Callable[[], None],
        on_breaker: OnBreaker,
        deaf: Callable[[], None] | None = None,
    ) -> None:
        self._serves = serves
        self.hear = hear
        self._on_breaker = on_breaker
        self._deaf = deaf
        self._connection: BaseDatabaseWrapper | None = None
        self._session: psycopg.Connection[Any] | None = None

    def attach(self, connection: BaseDatabaseWrapper, worker: str) -> None:
        """Listen on each session that the connection opens from now on. ``worker``: its name."""
        self._connection = connection
        # So pg_stat_activity shows that it listens, and for which worker.
        connection.settings_dict["OPTIONS"]["application_name"] = f"pgqueue:listen:{worker}"[:63]
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
        if self._deaf is not None and not is_direct(session):
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
            self.hear()
        elif channel == "pgqueue_breaker" and (opened := breaker_of(payload)) is not None:
            self._on_breaker(*opened)


def doze(alarm: Alarm, ear: Ear | None, seconds: float) -> None:
    """Sleep up to ``seconds``, until the alarm is set. Raises the database's error if the session of ``ear`` breaks."""
    deadline = time.monotonic() + seconds
    while not alarm.is_set() and (left := deadline - time.monotonic()) > 0:
        if ear is None or (socket := ear.socket) is None:
            alarm.wait(left)
        elif alarm.wait(min(left, numbers.CHECK_SECONDS), socket):
            ear.read()
        elif left > numbers.CHECK_SECONDS and not alarm.is_set():
            ear.check()


class Listener(Role):
    """Run an ear in a thread of its own, on a session outside of any pool, which would go on listening there.

    It is for workers whose producer cannot listen on its own session: another alias is to be used for LISTEN, or a
    pooler is in between. ``alias``: database alias for LISTEN. ``ear``: its ``hear`` is also called after each connect,
    because earlier notifications did not arrive. ``at_once``: start with the other roles; else only when :meth:`need`
    is called.
    """

    def __init__(self, shared: Shared, alias: str, ear: Ear, *, at_once: bool) -> None:
        super().__init__("listener", self._run, crashed=shared.crashed)
        self._alias = alias
        self._ear = ear
        self._at_once = at_once
        self._worker = shared.options.name
        self._outage = shared.outage
        self._stopped = False
        self._deaf = False
        self._alarm = Alarm()

    def start(self) -> None:
        """Start the thread, if it is needed from the beginning."""
        if self._at_once:
            self.need()

    def need(self) -> None:
        """Start the thread, unless it has been started."""
        if self.ident is None:
            super().start()

    def stop(self) -> None:
        """End the thread, and wait for it for up to 5 s."""
        self._stopped = True
        self._alarm.set()
        if self.ident is not None:
            self.join(5)

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            connection = self._make_connection()
            self._ear.attach(connection, self._worker)
            try:
                connection.connect()
                failures = 0
                self._outage.ended(LISTENER)
                self._ear.hear()
                session = connection.connection
                if is_direct(session) or self._hears(session):
                    self._deaf = False
                    while not self._stopped:
                        doze(self._alarm, self._ear, numbers.LISTEN_SECONDS)
                else:
                    if not self._deaf:
                        logger.warning(
                            "notifications do not come through to the database alias %r, so this worker polls. Is "
                            "there a transaction pooler in between? Set LISTEN_DATABASE to a direct connection, or "
                            'NOTIFY to "never".', self._alias,
                            extra={"event": "listener_deaf", "worker": self._worker},
                        )  # fmt: skip
                    self._deaf = True
                    session.execute("UNLISTEN *")
                    connection.close()
                    self._alarm.wait(numbers.DEAF_SECONDS)
            except (psycopg.Error, DatabaseError, OSError) as error:
                self._outage.failed(LISTENER, error, failures)
                self._alarm.wait(pause(failures))
                failures += 1
            finally:
                connection.close()

    def _make_connection(self) -> BaseDatabaseWrapper:
        connection = without_pool(connections[self._alias])
        limit_answer_time(connection)
        return connection

    def _hears(self, session: psycopg.Connection) -> bool:
        """Send a notification from a second session, and return whether this session receives it.

        Behind a transaction pooler LISTEN succeeds, but notifications do not arrive, because the server's session was
        lent for one transaction only.
        """
        token = uuid4().hex
        other = self._make_connection()
        try:
            other.connect()
            other.connection.execute("SELECT pg_notify('pgqueue', %s)", [token])
        finally:
            other.close()
        return any(heard.payload == token for heard in session.notifies(timeout=numbers.ECHO_SECONDS))


def breaker_of(payload: str) -> tuple[str, str | None, str | None] | None:
    """Return handler, queue and channel of a breaker that has opened; None for a payload that a client made up."""
    try:
        opened = json.loads(payload)
        return opened["handler"], opened["queue"], opened["channel"]
    except (KeyError, TypeError, ValueError):
        return None
