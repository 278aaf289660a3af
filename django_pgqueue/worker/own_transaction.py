"""Check that an atomic handler is still in the transaction in which it began, and find the error that aborted it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from django_pgqueue.exceptions import HandlerError, PgQueueError
from django_pgqueue.sql.call import call, translate

# PostgreSQL resets this setting at the end of the transaction, but also at a RESET ALL, which ends nothing; then now()
# is still the same. An xid would serve as well, but a handler that only reads must not have one, because it would keep
# the floors from rising for as long as it runs.
MARK = "SELECT set_config('pgqueue.run', 'open', true), now()"
LOOK = "SELECT current_setting('pgqueue.run', true), now()"
# "Current transaction is aborted": the error of each statement after the one that failed.
ABORTED = "25P02"
SWALLOWED = (
    "The handler caught this database error and went on, but its transaction is aborted and cannot be committed. "
    "Put what may fail into transaction.atomic(), and catch the error outside of that block."
)


class TransactionEnded(HandlerError):
    """An atomic handler ended its transaction by itself, so its writes may be committed without its outcome."""


class OwnTransaction:
    """Observe the transaction of an atomic handler. It is made in the transaction, before the handler begins.

    ``using``: database alias.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._error: BaseException | None = None
        [(_, self._began_at)] = call(using, MARK)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the database error that aborts the transaction, while the handler runs in this context."""
        with connections[self._using].execute_wrapper(self._execute):
            yield

    def check(self) -> None:
        """Check that the writes of the handler can still be committed together with its outcome.

        Raises TransactionEnded if the handler has ended the transaction. Raises the database error that aborted it, if
        the handler has caught that error; an error of the queue's functions is raised as its own exception, such as
        LeaseLost.
        """
        connection = connections[self._using]
        cause = self._error or getattr(connection, "rollback_exc", None)
        if cause is not None and (
            connection.needs_rollback or transaction_status(connection) == TransactionStatus.INERROR
        ):
            if (known := queue_error_of(cause)) is not None:
                raise known from cause
            cause.add_note(SWALLOWED)
            raise cause
        self.check_ended()

    def check_ended(self) -> None:
        """Raise TransactionEnded if the handler has ended the transaction."""
        match transaction_status(connections[self._using]):
            case TransactionStatus.IDLE:
                ended = True
            case TransactionStatus.INTRANS if not connections[self._using].needs_rollback:
                [(mark, began_at)] = call(self._using, LOOK)
                ended = mark != "open" and began_at != self._began_at
            case _:
                ended = False
        if ended:
            raise TransactionEnded(
                "The handler ended the transaction that it shares with the settlement of its message, by a COMMIT or "
                "ROLLBACK of its own: what it wrote is committed in part, or lost.",
                hint="Remove it, or register the handler without atomic=True. See what was written, then redrive.",
            )

    def _execute(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        try:
            return execute(sql, params, many, context)
        except DatabaseError as error:
            if getattr(error.__cause__, "sqlstate", None) != ABORTED:
                self._error = error
            raise


def queue_error_of(error: BaseException) -> PgQueueError | None:
    """Return the queue's own exception for an error of its functions, or None for another error."""
    known = translate(error) if isinstance(error, DatabaseError) else None
    return known if known is not None and known.sqlstate == getattr(error.__cause__, "sqlstate", "") else None


def transaction_status(connection: BaseDatabaseWrapper) -> TransactionStatus:
    """Return the state of the session's transaction; UNKNOWN without a session."""
    session = connection.connection
    return TransactionStatus.UNKNOWN if session is None else session.info.transaction_status
