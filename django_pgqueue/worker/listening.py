"""Listen for NOTIFY and end the sleep of the producer. Without that, messages start up to a poll interval later.

Mostly the session of the producer listens, which spares a message the way through another session and thread: the
server process that gets the notification is the one that then runs the dequeue, and the thread that reads it sends the
dequeue. A :class:`Listener` has a session and a thread of its own.
"""

from __future__ import annotations

import json
import logging
import os
import select
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pgqueue.backoff import pause
from django_pgqueue.sql.prepared import is_direct
from django_pgqueue.sql.stall import limit_answer_time
from django_pgqueue.worker import numbers
from django_pgqueue.worker.database import LISTENER, Outage, without_pool
from django_pgqueue.worker.runtime import Crashed, Role

LISTEN = "LISTEN pgqueue; LISTEN pgqueue_breaker"
# How long the thread of a listener dozes at a time.
LISTEN_SECONDS = 3600.0
OPEN_BREAKERS = """
SELECT l.breaker_handler, c.queue, c.name FROM pgqueue_limit AS l LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
WHERE l.open_until IS NOT NULL
"""
logger = logging.getLogger("django_pgqueue.worker")

# Takes handler, queue and channel of a breaker that has opened; the last two are None for a handler's.
OnBreaker = Callable[[str, str | None, str | None], None]


class Alarm:
    """Wake one thread, like a threading.Event, which cannot wait for a socket at the same time."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        # Not before: another thread may write into the pipe at any time.
        weakref.finalize(self, _close, self._reader, self._writer)
        self._set = self._written = False

    def is_set(self) -> bool:
        """Return whether it was set since the last :meth:`clear`."""
        return self._set

    def set(self) -> None:
        """End the present sleep, or else the next one; from any thread."""
        if not self._set:
            self._set = self._written = True
            with suppress(BlockingIOError):  # the pipe is full, so the sleeper wakes all the same
                os.write(self._writer, b"x")

    def keep_awake(self) -> None:
        """End the next sleep; for the thread that sleeps."""
        self._set = True

    def clear(self) -> None:
        """Forget the calls of :meth:`set` until now; for the thread that sleeps."""
        if self._written:
            self._drain()
        # Cleared last: a call of set() after that writes again, so it is not lost.
        self._set = self._written = False

    def wait(self, seconds: float, socket: int | None = None) -> bool:
        """Sleep up to ``seconds``, until :meth:`set` is called or there is data on ``socket``.

        ``socket``: a file descriptor, or None. Returns whether there is data on it.
        """
        if self._set:
            return False
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if socket is not None:
            poll.register(socket, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(seconds * 1000)]
        if self._reader in ready and not self._set:
            # A call of set() that clear() has overtaken. If another one comes now, the flag is set.
            self._drain()
        return socket in ready

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


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


class Listener:
    """Run an ear in a thread of its own, on a session outside of any pool, which would go on listening there.

    It is for workers whose producer cannot listen on its own session: another alias is to be used for LISTEN, or a
    pooler is in between. ``alias``: database alias for LISTEN. ``ear``: its ``hear`` is also called after each connect,
    because earlier notifications did not arrive. ``at_once``: start with the other roles; else only when :meth:`need`
    is called.
    """

    def __init__(
        self,
        alias: str,
        ear: Ear,
        *,
        at_once: bool,
        worker: str,
        outage: Outage,
        crashed: Crashed,
    ) -> None:
        self._alias = alias
        self._ear = ear
        self._at_once = at_once
        self._worker = worker
        self._outage = outage
        self._stopped = False
        self._deaf = False
        self._alarm = Alarm()
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
        self._alarm.set()
        if self._thread.ident is not None:
            self._thread.join(5)

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
                        doze(self._alarm, self._ear, LISTEN_SECONDS)
                else:
                    self._log_deaf()
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

    def _log_deaf(self) -> None:
        if not self._deaf:
            logger.warning(
                "notifications do not come through to the database alias %r, so this worker polls. Is there a "
                'transaction pooler in between? Set LISTEN_DATABASE to a direct connection, or NOTIFY to "never".',
                self._alias,
                extra={"event": "listener_deaf", "worker": self._worker},
            )
        self._deaf = True


def breaker_of(payload: str) -> tuple[str, str | None, str | None] | None:
    """Return handler, queue and channel of a breaker that has opened; None for a payload that a client made up."""
    try:
        opened = json.loads(payload)
        return opened["handler"], opened["queue"], opened["channel"]
    except (KeyError, TypeError, ValueError):
        return None
