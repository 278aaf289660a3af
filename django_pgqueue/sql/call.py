"""Run the statements of the lifecycle with the only cursor, and turn refusals and SQLSTATEs into exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from django.apps import apps
from django.db import DatabaseError, DataError, connections, router, transaction

from django_pgqueue.conf import settings
from django_pgqueue.exceptions import BY_SQLSTATE, InvalidMessage, LeaseLost, PartitionMissing, PgQueueError

SET_TIMEOUTS_MS = "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', '2s', true)"
# The classes of SQLSTATEs for values that PostgreSQL refuses, and for values that are too large or too deep for it.
DATA_EXCEPTION, LIMIT_EXCEEDED = "22", "54"
CHECK_VIOLATION = "23514"
UNDEFINED_FUNCTION, UNDEFINED_TABLE = "42883", "42P01"
ARCHIVE = "pgqueue_archived_message"
# How an error of each of the two names what is missing, in every language: a function has its arguments behind it.
MISSING = {
    UNDEFINED_FUNCTION: ("function", re.compile(r"\b(pgqueue_\w+)\(")),
    UNDEFINED_TABLE: ("table", re.compile(r"\b(pgqueue_\w+)")),
}


def alias(using: str | None) -> str:
    """Return ``using``, or else the setting DATABASE, or else the database that the routers give for writing a
    message."""
    return using or settings.DATABASE or router.db_for_write(apps.get_model("pgqueue", "Message"))


def call(using: str | None, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement and return all of its rows. ``using``: database alias; None: the queue's.

    Raises the exception of the SQLSTATE; other database errors are raised unchanged.
    """
    database = alias(using)
    try:
        with connections[database].cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows
    except (DatabaseError, ValueError, OverflowError) as error:
        raise_known(error, database)


def ask(using: str | None, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """Run a verb whose last column is ``refusal``, and return its rows without that column.

    Raises the exception of the first refusal. The verb has returned it, so the caller's transaction stays usable.
    """
    rows = call(using, sql, params)
    for row in rows:
        if row[-1] is not None:
            raise refusal_error(row[-1])
    return [row[:-1] for row in rows]


def refusal_error(refusal: str, prefix: str = "") -> PgQueueError:
    """Return the exception of a refusal, as pgqueue_refusal builds it; ``prefix`` goes before its message."""
    parts = json.loads(refusal)
    return BY_SQLSTATE[parts["sqlstate"]](prefix + parts["message"], hint=in_python(parts["hint"]))


def in_python(hint: str) -> str:
    """Return a hint of the SQL functions with the calls of Python: ``channel_set(queue='default')``."""
    return re.sub(r"\bp_(\w+) => ", r"\1=", re.sub(r"\bpgqueue_(\w+)\(", r"\1(", hint))


@contextmanager
def bounded_read(using: str, *, seconds: float) -> Iterator[None]:
    """Run reads in a transaction with a timeout for each statement, and roll it back. Repeated calls cannot pile up.

    ``using``: database alias. ``seconds``: the timeout of a statement; a lock is awaited for 2 s. Inside of another
    transaction, it rolls back to a savepoint.
    """
    with transaction.atomic(using=using):
        call(using, SET_TIMEOUTS_MS, (f"{seconds * 1000:.0f}ms",))
        yield
        transaction.set_rollback(True, using=using)


def translate(error: Exception) -> PgQueueError | None:
    """Return the queue's own exception for an error, or None if the error is not the queue's.

    ``error``: an error of the database, mapped by its SQLSTATE; or one of psycopg, which refuses some values before it
    sends them. The latter becomes InvalidMessage.
    """
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
        return BY_SQLSTATE[sqlstate](message, hint=in_python(hint))
    # Where a row has no partition, PostgreSQL names no constraint. Its message is in the language of lc_messages.
    if sqlstate == CHECK_VIOLATION and not diagnostics.constraint_name and diagnostics.table_name == ARCHIVE:
        return PartitionMissing(
            "the archive has no partition for today; nothing was changed",
            hint="Run manage.py sweepqueue, or SELECT pgqueue_prune(), then settle again.",
        )
    if sqlstate == CHECK_VIOLATION and (diagnostics.constraint_name or "").startswith("pgqueue_"):
        return InvalidMessage(
            f"the rule {diagnostics.constraint_name} of the table {diagnostics.table_name} refuses a value",
            hint="The reference of the tables has the rules.",
        )
    if sqlstate.startswith((DATA_EXCEPTION, LIMIT_EXCEEDED)):
        return InvalidMessage(f"a value cannot be stored: {message}", hint=hint)
    return None


def raise_known(error: Exception, using: str) -> NoReturn:
    """Raise the exception of the error's SQLSTATE, or the error itself. ``using``: database alias.

    A traceback does not show an error in which PostgreSQL quotes the value.
    """
    known = translate(error)
    if known is not None:
        raise known from (None if type(known) is InvalidMessage and quotes_value(error) else error)
    if unmigrated := unmigrated_text(error, using):
        raise type(error)(unmigrated) from error.__cause__
    raise error


def unmigrated_text(error: Exception, using: str) -> str:
    """Return what to do about an error that names a function or table of the queue which the database does not have;
    empty for any other error. ``using``: database alias."""
    kind, pattern = MISSING.get(getattr(error.__cause__, "sqlstate", None) or "", ("", None))
    missing = pattern and pattern.search(primary(error))
    if not missing:
        return ""
    return (
        f"The database {using!r} does not have the {kind} {missing[1]} of this release: run manage.py migrate. If the "
        'queue is in another database, name it in the setting DJANGO_PGQUEUE["DATABASE"].'
    )


def quotes_value(error: Exception) -> bool:
    """Return whether the error is one in which PostgreSQL or psycopg shows the value that it refuses."""
    sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
    return not sqlstate or sqlstate == CHECK_VIOLATION or sqlstate.startswith((DATA_EXCEPTION, LIMIT_EXCEEDED))


def primary(error: BaseException) -> str:
    """Return the server's message without the statement, which is long for the queue's functions."""
    diagnostics = getattr(error, "diag", None) or getattr(error.__cause__, "diag", None)
    return (getattr(diagnostics, "message_primary", None) or str(error)).strip()
