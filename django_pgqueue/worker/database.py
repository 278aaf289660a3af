"""Manage the worker's connections, and retry while the database is away."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from django.db import Error, InterfaceError, InternalError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import InsufficientPrivilege, UndefinedColumn, UndefinedFunction, UndefinedTable
from psycopg.pq import TransactionStatus

from django_pgqueue.backoff import pause
from django_pgqueue.delivery import Delivery, label
from django_pgqueue.exceptions import HandlerError
from django_pgqueue.sql.call import call, primary
from django_pgqueue.sql.pinned import pin_settings
from django_pgqueue.sql.stall import limit_answer_time
from django_pgqueue.worker import numbers

logger = logging.getLogger("django_pgqueue.worker")

# The errors of a lost, refused or restarting server, a failover to a replica, a deadlock or a timeout.
TRANSIENT = (OperationalError, InterfaceError, InternalError)

# The class of SQLSTATEs for missing rights, and for names that the database does not have.
ACCESS_RULE_VIOLATION = "42"

LISTENER = "listener"

# For libpq, on TCP: a peer that is gone is noticed after about ten seconds, not after two hours.
KEEP_ALIVE = {
    "connect_timeout": 10, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}  # fmt: skip

T = TypeVar("T")


def keep_alive() -> None:
    """Set TCP keep-alive options for all databases of the process, so that a dead server is noticed in about 10 s.

    They apply to the connections of handlers, too. Options that the project sets are kept.
    """
    for connection in connections.all():
        if connection.vendor == "postgresql":
            options = connections.settings[connection.alias].setdefault("OPTIONS", {})
            for name, value in KEEP_ALIVE.items():
                options.setdefault(name, value)


def without_pool(connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a copy of the connection that opens a session of its own instead of one from the pool."""
    copy = connection.copy()
    copy.settings_dict["OPTIONS"].pop("pool", None)
    return copy


def dedicate_connection(using: str) -> BaseDatabaseWrapper:
    """Replace this thread's connection by one outside of the pool, and return it.

    ``using``: database alias. A thread that keeps its connection would take one from the pool for good. The connection
    has a limit for each answer of the server (:mod:`django_pgqueue.sql.stall`), so it is for short statements and not
    for handlers. Its sessions have the isolation level that a dequeue needs (:mod:`django_pgqueue.sql.pinned`).
    """
    connections[using] = connection = without_pool(connections[using])
    without_query_log(connection)
    limit_answer_time(connection)
    pin_settings(connection)
    return connection


def without_query_log(connection: BaseDatabaseWrapper) -> None:
    """Turn off ``connection.queries``, for which Django formats every statement, unless its logger shows them."""
    if not logging.getLogger("django.db.backends").isEnabledFor(logging.DEBUG):
        connection.make_debug_cursor = connection.make_cursor  # type: ignore[method-assign, assignment]  # for this connection alone


class OwnConnections:
    """Hold the connections of one thread, for that thread: Django's look-up costs more than a small handler."""

    def __init__(self) -> None:
        self.found: list[BaseDatabaseWrapper] = []
        self._aliases = 0

    def opened(self) -> list[BaseDatabaseWrapper]:
        """Return the connections that may need to be cleaned up: they have a session, or had an error."""
        # A project may add databases at run time.
        if len(connections.settings) != self._aliases:
            self._aliases = len(connections.settings)
            self.found = list(connections.all())
        return [each for each in self.found if each.connection is not None or each.errors_occurred]


def tidy_connections(opened: Iterable[BaseDatabaseWrapper]) -> None:
    """Close the connections that are broken or too old, and return those of a pool. Open transactions stay."""
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


def end_transactions(opened: Iterable[BaseDatabaseWrapper], deliveries: Sequence[Delivery]) -> HandlerError | None:
    """Close the connections with an open transaction, which rolls it back, and log the handler that left it.

    Otherwise the writes of the next handler would be lost with it. ``deliveries``: those of the handler; empty for the
    connection that all async handlers share, where the log line cannot name one. Returns the error with which the
    handler fails if writes of it are lost.
    """
    lost = None
    for connection in opened:
        if connection.connection is None or not (connection.in_atomic_block or is_open(connection)):
            continue
        who = "an async handler"
        extra: dict[str, Any] = {"event": "transaction_left_open"}
        if deliveries:
            first = deliveries[0]
            who = f"the handler of {', '.join(map(label, deliveries))}"
            extra |= {"message_id": first.id, "queue": first.queue, "channel": first.channel}
        logger.warning(
            "%s left a transaction open on %r: it is rolled back. Use transaction.atomic() as a context manager",
            who, connection.alias, extra=extra,
        )  # fmt: skip
        if has_written(connection):
            lost = writes_lost(connection.alias)
        # As connect() does. Inside of an atomic block, Django would not connect again.
        connection.in_atomic_block = connection.needs_rollback = False
        connection.savepoint_ids, connection.atomic_blocks, connection.run_on_commit = [], [], []
        with suppress(Error):
            connection.close()
    return lost


def writes_lost(alias: str) -> HandlerError:
    """Return the error of a handler that wrote or locked in a transaction on ``alias`` and left it open."""
    return HandlerError(
        f"The handler returned without ending the transaction that it had opened on {alias!r}: what it wrote or locked "
        "there is rolled back.",
        hint="Use transaction.atomic() as a context manager, or commit, also after set_autocommit(False).",
    )


def has_written(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the open transaction wrote or locked rows (SELECT … FOR UPDATE), or is aborted and may have."""
    if connection.vendor != "postgresql":
        return True
    try:
        [(assigned,)] = call(connection.alias, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
    except Error:
        return True
    return bool(assigned)


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Return whether PostgreSQL has a transaction open on this connection that Django does not know."""
    session = connection.connection
    if session is None or connection.vendor != "postgresql" or not connection.settings_dict["AUTOCOMMIT"]:
        return False
    return session.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def cancel_query(connection: BaseDatabaseWrapper) -> None:
    """Cancel the query that another thread waits for on this connection, if there is one.

    Waits up to CANCEL_SECONDS for the server; an error is logged and not raised.
    """
    session = connection.connection
    if session is None or connection.vendor != "postgresql":
        return
    try:
        if session.info.transaction_status == TransactionStatus.ACTIVE:
            session.cancel_safe(timeout=numbers.CANCEL_SECONDS)
    except psycopg.Error:  # it has just ended, or the server does not answer
        logger.debug("a query was not cancelled", exc_info=True)


def recover(
    used: Sequence[BaseDatabaseWrapper],
    deliveries: Sequence[Delivery],
    *,
    using: str,
    role: str,
    outage: Outage,
    sleep: Callable[[float], bool],
) -> None:
    """Clean up the connections of this thread after a handler, and wait for the database if its connection broke.

    ``used``: the connections that the thread has opened. ``deliveries``: the messages that the handler had.
    ``using``: alias of the queue's database. ``role``: the name of the caller in log lines. ``sleep``: as for
    :meth:`Outage.retry_until_success`.
    """
    suspicious = [connection for connection in used if connection.errors_occurred and connection.alias == using]
    end_transactions(used, deliveries)
    tidy_connections(used)
    for connection in suspicious:
        if connection.connection is None:
            outage.retry_until_success(role, connection.ensure_connection, sleep=sleep)


def is_misfit(error: BaseException) -> bool:
    """Return whether the database lacks a right, a table, a column or a function that the statement needs.

    Neither the message nor its handler is the cause, and only an operator can help: SQLSTATEs of the class 42.
    """
    return (getattr(error.__cause__, "sqlstate", None) or "").startswith(ACCESS_RULE_VIOLATION)


def remedy(error: BaseException, using: str) -> str:
    """Return the sentence that says what to do about a missing right, table, column or function; else an empty text.

    ``using``: database alias; the error is of its connection in this thread.
    """
    match error.__cause__:
        case InsufficientPrivilege():
            session = connections[using].connection
            role = "ROLE" if session is None else session.info.user
            return (
                " The worker starts nothing until the right is granted: manage.py pgqueue grant worker "
                f"{role}; pgqueue rights worker {role} lists what it lacks."
            )
        case UndefinedTable() | UndefinedColumn() | UndefinedFunction():
            return " Is the database migrated? Run manage.py migrate."
    return ""


class Outage:
    """Track whether the database answers, for all roles of a process, and log each outage once.

    A role calls :meth:`retry_until_success` for each step that needs the database. ``using``: database alias;
    ``name``: the worker's name, for log lines.
    """

    def __init__(self, using: str, name: str) -> None:
        self.using = using
        # Set while no role but the listener fails.
        self.calm = threading.Event()
        self.calm.set()
        self._extra = {"worker": name}
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        # Those of them whose statements the database cannot run before an operator helps.
        self._misfits: set[str] = set()
        self._error = ""

    @property
    def problem(self) -> str:
        """Return the last error text while the database fails, else an empty text."""
        return "" if self.calm.is_set() else self._error

    @property
    def misfit(self) -> bool:
        """Return whether statements fail because the database lacks a right, a table, a column or a function."""
        return bool(self._misfits)

    def holds_up(self, role: str) -> bool:
        """Return whether statements of another role than ``role`` fail for such a reason."""
        return not self._misfits <= {role}

    def failed(self, role: str, error: BaseException, failures: int) -> None:
        """Record that a step of ``role`` failed with ``error``, and log the start of an outage.

        ``failures``: the number of failures in a row before this one. The first is logged as a broken connection,
        which may only be old; an outage begins with the second, or when a right, a table or a function is missing.
        """
        text = primary(error)
        misfit = is_misfit(error)
        if misfit:
            text = f"{text.rstrip('.')}.{remedy(error, self.using)}"
        elif not failures:
            if self.calm.is_set():
                extra = {**self._extra, "event": "connection_lost"}
                logger.info("a connection broke, taking a new one (%s): %s", role, text, extra=extra)
            return
        with self._lock:
            first = not self._failing
            self._failing.add(role)
            (self._misfits.add if misfit else self._misfits.discard)(role)
            self._error = text
            if self._failing != {LISTENER}:
                self.calm.clear()
        if first:
            extra = {**self._extra, "event": "database_lost"}
            logger.error("the database fails, retrying (%s): %s", role, text, extra=extra)

    def ended(self, role: str) -> None:
        """Record that a step of ``role`` succeeded, and log the end of the outage if no other role fails."""
        if role not in self._failing:
            return
        with self._lock:
            self._failing.discard(role)
            self._misfits.discard(role)
            last = not self._failing
            if self._failing <= {LISTENER}:
                self.calm.set()
        if last:
            logger.info("the database works again", extra={**self._extra, "event": "database_back"})

    def retry_until_success(
        self,
        role: str,
        function: Callable[[], T],
        *,
        sleep: Callable[[float], bool],
        on: Callable[[Exception], bool] = lambda error: isinstance(error, Error),
    ) -> T | None:
        """Call ``function`` until it succeeds, with a new connection and a growing pause after each failure.

        ``role``: the caller's name in log lines. ``sleep``: waits for a number of seconds, and returns True to stop.
        ``on``: returns whether an exception is retried; others are raised. Returns the value of ``function``, or None
        if ``sleep`` asked to stop.
        """
        failures = 0
        while True:
            try:
                answer = function()
            except Exception as error:
                if not on(error):
                    raise
                self.failed(role, error, failures)
                connections[self.using].close()
                if failures and sleep(pause(failures)):
                    return None
                failures += 1
            else:
                if role in self._failing:
                    self.ended(role)
                return answer
