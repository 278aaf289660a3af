"""The only cursor of the lifecycle: runs a call, returns its rows, and turns SQLSTATEs into exceptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, DataError, connections, transaction

from django_pgqueue.exceptions import BY_SQLSTATE, InvalidMessage, LeaseLost, PartitionMissing, PgQueueError

PATIENCE = "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', '2s', true)"
DATA_EXCEPTION = "22"  # the class of SQLSTATEs for values that PostgreSQL cannot take


def call(using: str, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement on the connection ``using`` and return all of its rows.

    Raises the exception of the SQLSTATE; other database errors come as they are.
    """
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows
    except (DatabaseError, ValueError, OverflowError) as error:
        known = translate(error)
        if known is None:
            raise
        raise known from error


@contextmanager
def looking(using: str, *, seconds: float) -> Iterator[None]:
    """A transaction for looking around, in which no statement takes longer: who asks again and again must not pile up.

    It is rolled back, with these settings; within another transaction, to a savepoint.
    """
    with transaction.atomic(using=using):
        call(using, PATIENCE, (f"{seconds * 1000:.0f}ms",))
        yield
        transaction.set_rollback(True, using=using)


def translate(error: Exception) -> PgQueueError | None:
    """The queue's own exception for a database error, or None."""
    cause = error.__cause__
    diagnostics = getattr(cause, "diag", None)
    sqlstate = getattr(cause, "sqlstate", None)
    if isinstance(error, UnicodeEncodeError):
        return InvalidMessage(
            "a text contains half a surrogate pair: it is not text", hint="Clean it, or send it as body."
        )
    if diagnostics is None or sqlstate is None:
        # psycopg refuses NUL characters and overlong intervals by itself, before anything is sent.
        return (
            InvalidMessage(f"a value cannot be stored: {error}")
            if isinstance(error, DataError | ValueError | OverflowError)
            else None
        )
    message, hint = diagnostics.message_primary or str(error), diagnostics.message_hint or ""
    if sqlstate == LeaseLost.sqlstate:
        ids = tuple(int(part) for part in (diagnostics.message_detail or "").split(",") if part)
        return LeaseLost(message, hint=hint, ids=ids)
    if sqlstate in BY_SQLSTATE:
        return BY_SQLSTATE[sqlstate](message, hint=hint)
    if sqlstate == "23514" and message.startswith("no partition of relation"):
        return PartitionMissing(
            "the archive has no partition for today; nothing was changed",
            hint="Run manage.py sweepqueue, or SELECT pgqueue_prune(), then settle again.",
        )
    if sqlstate.startswith(DATA_EXCEPTION):
        return InvalidMessage(f"a value cannot be stored: {message}", hint=hint)
    return None


def primary(error: BaseException) -> str:
    """What the server says, without the statement in which it happened: those of the queue are long."""
    diagnostics = getattr(error, "diag", None) or getattr(error.__cause__, "diag", None)
    return (getattr(diagnostics, "message_primary", None) or str(error)).strip()
