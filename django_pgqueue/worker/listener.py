"""The listener: a connection that hears NOTIFY and wakes the producer. Everything works without it, a little later."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

import psycopg
from django.db import DatabaseError, connections

from django_pgqueue.backoff import pause
from django_pgqueue.sql.stall import expect_answers
from django_pgqueue.worker.database import LISTENER, Outage, without_pool
from django_pgqueue.worker.role import Crashed, Role

# Seconds without a notification after which it asks whether the server is still there.
CHECK_INTERVAL = 5.0


class Listener:
    """LISTEN on a session of its own: one that goes back to a pool would go on listening there.

    ``wake``: called on a notification for one of the queues, and after each (re)connect, since what came before was
    not heard.
    """

    def __init__(
        self,
        alias: str,
        queues: tuple[str, ...],
        *,
        worker: str,
        outage: Outage,
        wake: Callable[[], None],
        crashed: Crashed,
    ) -> None:
        self._alias = alias
        self._queues = frozenset(queues)
        self._worker = worker
        self._outage = outage
        self._wake = wake
        self._stopped = False
        self._stop_reader, self._stop_writer = os.pipe()
        self._thread = Role("listener", self._run, crashed=crashed)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        os.write(self._stop_writer, b"x")
        self._thread.join(5)
        if not self._thread.is_alive():
            os.close(self._stop_reader)
            os.close(self._stop_writer)

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            connection = without_pool(connections[self._alias])
            connection.settings_dict["OPTIONS"]["application_name"] = f"pgqueue:listen:{self._worker}"[:63]
            expect_answers(connection)
            try:
                connection.connect()
                connection.connection.execute("LISTEN pgqueue")
                failures = 0
                self._outage.ended(LISTENER)
                self._wake()
                self._hear(connection.connection)
            except (psycopg.Error, DatabaseError, OSError) as error:
                self._outage.failed(LISTENER, error, failures)
                self._sleep(pause(failures))
                failures += 1
            finally:
                connection.close()

    def _hear(self, session: psycopg.Connection) -> None:
        while not self._stopped:
            # First what is here already: a readable socket tells only about what is not read yet.
            heard = list(session.notifies(timeout=0))
            if any(notification.payload in self._queues for notification in heard):
                self._wake()
            readable, _, _ = select.select([session.fileno(), self._stop_reader], [], [], CHECK_INTERVAL)
            if not readable:
                # Silence may be a connection that is half open. The limit on answers finds out.
                session.execute("SELECT 1")

    def _sleep(self, seconds: float) -> None:
        select.select([self._stop_reader], [], [], seconds)
