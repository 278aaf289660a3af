"""Listen for NOTIFY and end the sleep of the producer. Without that, messages start up to a poll interval later.

An :class:`Ear` listens on the session of the producer, which spares a message the way through another session and
thread: the server process that gets the notification is the one that then runs the dequeue, and the thread that reads
it sends the dequeue. A :class:`Listener` has a session and a thread of its own.
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
from django_pgqueue.worker.role import Crashed, Role

LISTEN = "LISTEN pgqueue; LISTEN pgqueue_breaker"
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
        elif alarm.wait(min(left, numbers.CHECK_SECONDS), socket):
            ear.read()
        elif left > numbers.CHECK_SECONDS and not alarm.is_set():
            ear.check()


class Listener:
    """Run LISTEN in a thread of its own, on a session outside of any pool, which would go on listening there.

    It is for workers whose producer cannot listen on its own session (:class:`Ear`): another alias is to be used for
    LISTEN, or a pooler is in between.

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
        on_breaker: OnBreaker,
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
                    self._sleep(numbers.DEAF_SECONDS)
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

    def _hear(self, session: psycopg.Connection) -> None:
        while not self._stopped:
            # Read what has arrived first: the socket is not readable for data that is already in psycopg's buffer.
            heard = list(session.notifies(timeout=0))
            for notice in heard:
                if notice.channel == "pgqueue" and self._serves(notice.payload):
                    self._wake()
                elif notice.channel == "pgqueue_breaker" and (opened := breaker_of(notice.payload)) is not None:
                    self._on_breaker(*opened)
            readable, _, _ = select.select([session.fileno(), self._stop_reader], [], [], numbers.CHECK_SECONDS)
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
