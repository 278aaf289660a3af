"""Listen for NOTIFY and wake the producer. Without a listener, messages start up to a poll interval later."""

from __future__ import annotations

import json
import logging
import os
import select
from collections.abc import Callable
from uuid import uuid4

import psycopg
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pgqueue.backoff import pause
from django_pgqueue.sql.prepared import is_direct
from django_pgqueue.sql.stall import limit_answer_time
from django_pgqueue.worker.database import LISTENER, Outage, without_pool
from django_pgqueue.worker.role import Crashed, Role

LISTEN = "LISTEN pgqueue; LISTEN pgqueue_breaker"
OPEN_BREAKERS = """
SELECT l.breaker_handler, c.queue, c.name FROM pgqueue_limit AS l LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
WHERE l.open_until IS NOT NULL
"""
logger = logging.getLogger("django_pgqueue.worker")

# After this time without a notification, the listener asks whether the server is still there.
CHECK_SECONDS = 5.0
# A notification to itself must arrive within ECHO_SECONDS, or the listener is behind a transaction pooler. It tries
# again after DEAF_SECONDS.
ECHO_SECONDS = 3.0
DEAF_SECONDS = 60.0


class Listener:
    """Run LISTEN in a thread of its own, on a session outside of any pool, which would go on listening there.

    It is for workers whose producer cannot listen on its own session (:mod:`~django_pgqueue.worker.fetch.ear`): another
    alias is to be used for LISTEN, or a pooler is in between.

    ``alias``: database alias for LISTEN. ``serves``: returns whether the worker serves a queue. ``worker``: its name.
    ``wake``: called on a notification for such a queue, and after each connect, because earlier ones did not arrive.
    ``on_breaker``: called with handler, queue and channel when a breaker opens; the last two are None for a handler's.
    ``at_once``: start with the other roles; else only when :meth:`need` is called. ``crashed``: called with the error
    if the thread ends by one.
    """

    def __init__(
        self,
        alias: str,
        serves: Callable[[str], bool],
        *,
        at_once: bool,
        worker: str,
        outage: Outage,
        wake: Callable[[], None],
        on_breaker: Callable[[str, str | None, str | None], None],
        crashed: Crashed,
    ) -> None:
        self._alias = alias
        self._at_once = at_once
        self._serves = serves
        self._worker = worker
        self._outage = outage
        self._wake = wake
        self._on_breaker = on_breaker
        self._stopped = False
        self._deaf = False
        self._stop_reader, self._stop_writer = os.pipe()
        self._thread = Role("listener", self._run, crashed=crashed)

    def start(self) -> None:
        """Start the thread, if it is needed from the beginning."""
        if self._at_once:
            self.need()

    def need(self) -> None:
        """Start the thread, unless it has been started."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it for up to 5 s."""
        self._stopped = True
        os.write(self._stop_writer, b"x")
        if self._thread.ident is not None:
            self._thread.join(5)
        if not self._thread.is_alive():
            os.close(self._stop_reader)
            os.close(self._stop_writer)

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            connection = self._make_connection()
            try:
                connection.connect()
                session = connection.connection
                direct = is_direct(session)
                session.execute(LISTEN)
                failures = 0
                self._outage.ended(LISTENER)
                # A breaker may have opened, and messages may have come, before this session listened.
                for opened in session.execute(OPEN_BREAKERS).fetchall():
                    self._on_breaker(*opened)
                self._wake()
                if not direct and not self._hears(session):
                    self._log_deaf()
                    session.execute("UNLISTEN *")
                    connection.close()
                    self._sleep(DEAF_SECONDS)
                else:
                    self._deaf = False
                    self._hear(session)
            except (psycopg.Error, DatabaseError, OSError) as error:
                self._outage.failed(LISTENER, error, failures)
                self._sleep(pause(failures))
                failures += 1
            finally:
                connection.close()

    def _make_connection(self) -> BaseDatabaseWrapper:
        connection = without_pool(connections[self._alias])
        name_session(connection, self._worker)
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
        return any(heard.payload == token for heard in session.notifies(timeout=ECHO_SECONDS))

    def _log_deaf(self) -> None:
        if not self._deaf:
            logger.warning(
                "notifications do not come through to the database alias %r, so this worker polls. Is there a "
                'transaction pooler in between? Set LISTEN_DATABASE to a direct connection, or NOTIFY to "never".',
                self._alias,
                extra={"event": "listener_deaf", "worker": self._worker},
            )
        self._deaf = True

    def _hear(self, session: psycopg.Connection) -> None:
        while not self._stopped:
            # Read what has arrived first: the socket is not readable for data that is already in psycopg's buffer.
            heard = list(session.notifies(timeout=0))
            if any(self._serves(notice.payload) for notice in heard if notice.channel == "pgqueue"):
                self._wake()
            for notice in heard:
                if notice.channel == "pgqueue_breaker" and (opened := breaker_of(notice.payload)) is not None:
                    self._on_breaker(*opened)
            readable, _, _ = select.select([session.fileno(), self._stop_reader], [], [], CHECK_SECONDS)
            if not readable:
                # The connection may be half open. The query fails then, by the limit for answers.
                session.execute("SELECT 1")

    def _sleep(self, seconds: float) -> None:
        select.select([self._stop_reader], [], [], seconds)


def name_session(connection: BaseDatabaseWrapper, worker: str) -> None:
    """Let pg_stat_activity show that the sessions of this connection listen, and for which worker."""
    connection.settings_dict["OPTIONS"]["application_name"] = f"pgqueue:listen:{worker}"[:63]


def breaker_of(payload: str) -> tuple[str, str | None, str | None] | None:
    """Return handler, queue and channel of a breaker that has opened; None for a payload that a client made up."""
    try:
        opened = json.loads(payload)
        return opened["handler"], opened["queue"], opened["channel"]
    except (KeyError, TypeError, ValueError):
        return None
