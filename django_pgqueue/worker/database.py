"""The worker's connections, and what it does while the database is away."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from django.db import Error, InterfaceError, InternalError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import UndefinedColumn, UndefinedFunction, UndefinedTable
from psycopg.pq import TransactionStatus

from django_pgqueue.backoff import pause
from django_pgqueue.delivery import Delivery, label
from django_pgqueue.sql.call import primary
from django_pgqueue.sql.stall import limit_answer_time

logger = logging.getLogger("django_pgqueue.worker")

# The errors of a lost, refused or restarting server, a failover to a replica, a deadlock or a timeout.
TRANSIENT = (OperationalError, InterfaceError, InternalError)

LISTENER = "listener"
# Seconds to reach the server with the request to cancel a query.
CANCEL_TIMEOUT = 2.0

# For libpq, on TCP: a peer that is gone is noticed after about ten seconds, not after two hours.
KEEP_ALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

T = TypeVar("T")


def keep_alive() -> None:
    """Let this process notice half-open connections soon, also those of its handlers; what the project sets, stays."""
    for connection in connections.all():
        if connection.vendor == "postgresql":
            options = connections.settings[connection.alias].setdefault("OPTIONS", {})
            for name, value in KEEP_ALIVE.items():
                options.setdefault(name, value)


def without_pool(connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a copy of the connection that is a session of its own, outside of the pool."""
    copy = connection.copy()
    copy.settings_dict["OPTIONS"].pop("pool", None)
    return copy


def dedicate_connection(using: str) -> BaseDatabaseWrapper:
    """Give this thread a connection of its own: one that it keeps all the time would only starve the pool.

    It gives up a server that falls silent, so it is for short statements: not for handlers.
    """
    connections[using] = connection = without_pool(connections[using])
    without_query_log(connection)
    limit_answer_time(connection)
    return connection


def without_query_log(connection: BaseDatabaseWrapper) -> None:
    """Turn off ``connection.queries``, for which Django formats every statement with DEBUG."""
    if not logging.getLogger("django.db.backends").isEnabledFor(logging.DEBUG):
        connection.make_debug_cursor = connection.make_cursor  # type: ignore[method-assign, assignment]  # for this connection alone


def opened_connections() -> Sequence[BaseDatabaseWrapper]:
    """Return the connections that this thread has opened. Call it once a message: the look-up is expensive."""
    return connections.all(initialized_only=True)


def tidy_connections(opened: Iterable[BaseDatabaseWrapper]) -> None:
    """Close connections that are broken, left in a transaction or too old, and return pooled ones."""
    for connection in opened:
        if connection.in_atomic_block:
            continue
        if not connection.settings_dict["CONN_MAX_AGE"]:
            # "Close after each request" is not meant for a worker, which would connect for each message.
            connection.close_at = None
        try:
            if connection.settings_dict["OPTIONS"].get("pool"):
                connection.close()
            else:
                connection.close_if_unusable_or_obsolete()
        except Error:
            logger.debug("a broken connection did not close", exc_info=True)


def end_transactions(opened: Iterable[BaseDatabaseWrapper], deliveries: Sequence[Delivery]) -> None:
    """Roll back what the handler of ``deliveries`` has left open: the next one's writes would be lost with it.

    ``deliveries`` is empty for the connection that all async handlers share: nothing tells which one it was.
    """
    who = f"the handler of {', '.join(map(label, deliveries))}" if deliveries else "an async handler"
    extra: dict[str, Any] = {"event": "transaction_left_open"}
    if deliveries:
        first = deliveries[0]
        extra |= {"message_id": first.id, "queue": first.queue, "channel": first.channel}
    for connection in opened:
        if connection.connection is None or not (connection.in_atomic_block or is_open(connection)):
            continue
        logger.warning("%s left a transaction open on %r: it is rolled back", who, connection.alias, extra=extra)
        # As connect() does. Inside of an atomic block, Django would not connect again.
        connection.in_atomic_block = connection.needs_rollback = False
        connection.savepoint_ids, connection.atomic_blocks, connection.run_on_commit = [], [], []
        with suppress(Error):
            connection.close()


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a transaction is open that Django does not know."""
    if connection.vendor != "postgresql" or not connection.settings_dict["AUTOCOMMIT"]:
        return False
    return connection.connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def cancel_query(connection: BaseDatabaseWrapper) -> None:
    """End the query that another thread waits for on this connection, if there is one."""
    session = connection.connection
    if session is None or connection.vendor != "postgresql":
        return
    try:
        if session.info.transaction_status == TransactionStatus.ACTIVE:
            session.cancel_safe(timeout=CANCEL_TIMEOUT)
    except psycopg.Error:  # it has just ended, or the server does not answer
        logger.debug("a query was not cancelled", exc_info=True)


def recover(
    deliveries: Sequence[Delivery], using: str, role: str, outage: Outage, *, sleep: Callable[[float], bool]
) -> None:
    """Tidy up after the messages. If the connection broke, see whether the server is there before the next ones."""
    used = opened_connections()
    suspicious = [connection for connection in used if connection.errors_occurred and connection.alias == using]
    end_transactions(used, deliveries)
    tidy_connections(used)
    for connection in suspicious:
        if connection.connection is None:
            outage.patiently(role, connection.ensure_connection, sleep=sleep)


def is_missing(error: BaseException) -> bool:
    """Return whether a table, a column or a function of the queue is missing: waiting alone does not help."""
    return isinstance(error.__cause__, UndefinedTable | UndefinedColumn | UndefinedFunction)


class Outage:
    """Logs once that the database is away, for all roles, and once that it is back."""

    def __init__(self, using: str, name: str) -> None:
        self.using = using
        self._extra = {"worker": name}
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._calm = threading.Event()
        self._calm.set()
        self._error = ""

    @property
    def problem(self) -> str:
        """Return the last error of the database while it fails, else an empty text."""
        return "" if self._calm.is_set() else self._error

    @property
    def over(self) -> bool:
        return self._calm.is_set()

    def wait_until_over(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds. Returns False if an outage of more than the listener lasts longer."""
        return self._calm.wait(timeout)

    def failed(self, role: str, error: BaseException, failures: int) -> None:
        """Record a failure. ``failures``: in a row, before this one; the first may be an old broken connection."""
        text = primary(error)
        if is_missing(error):
            text += ". Is the database migrated? Run manage.py migrate."
        elif not failures:
            if self._calm.is_set():
                extra = {**self._extra, "event": "connection_lost"}
                logger.info("a connection broke, taking a new one (%s): %s", role, text, extra=extra)
            return
        with self._lock:
            first = not self._failing
            self._failing.add(role)
            self._error = text
            if self._failing != {LISTENER}:
                self._calm.clear()
        if first:
            logger.error(
                "the database fails, retrying (%s): %s",
                role,
                text,
                extra={**self._extra, "event": "database_lost"},
            )

    def ended(self, role: str) -> None:
        if role not in self._failing:
            return
        with self._lock:
            self._failing.discard(role)
            last = not self._failing
            if self._failing <= {LISTENER}:
                self._calm.set()
        if last:
            logger.info("the database works again", extra={**self._extra, "event": "database_back"})

    def patiently(
        self,
        role: str,
        function: Callable[[], T],
        *,
        sleep: Callable[[float], bool],
        on: tuple[type[Exception], ...] = (Error,),
    ) -> T | None:
        """Call ``function`` until it succeeds. Returns its value; None if ``sleep(seconds)`` returned True to stop."""
        failures = 0
        while True:
            try:
                answer = function()
            except on as error:
                self.failed(role, error, failures)
                connections[self.using].close()
                if failures and sleep(pause(failures)):
                    return None
                failures += 1
            else:
                self.ended(role)
                return answer
