"""The only cursor of the lifecycle: runs a call, returns its rows, and turns SQLSTATEs into exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, connections

from django_pgqueue.exceptions import BY_SQLSTATE, InvalidMessage, LeaseLost, PartitionMissing, PgQueueError

BAD_TEXT = {
    "22021": "the text contains a NUL character",
    "22P02": "the payload is not valid JSON",
    "22P05": "the payload contains the character \\u0000, which PostgreSQL cannot store",
}


def call(using: str, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement on the connection ``using`` and return all of its rows.

    Raises the exception of the SQLSTATE; other database errors come as they are.
    """
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall()
    except (DatabaseError, ValueError) as error:
        known = translate(error)
        if known is None:
            raise
        raise known from error


def translate(error: Exception) -> PgQueueError | None:
    """The queue's own exception for a database error, or None."""
    cause = error.__cause__
    diagnostics = getattr(cause, "diag", None)
    sqlstate = getattr(cause, "sqlstate", None)
    if diagnostics is None or sqlstate is None:
        # psycopg refuses NUL characters by itself, before anything is sent.
        return InvalidMessage("a text contains a NUL character", hint="Remove it.") if "NUL" in str(error) else None
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
    if sqlstate in BAD_TEXT:
        return InvalidMessage(BAD_TEXT[sqlstate], hint="Clean it before you enqueue, or use body for raw bytes.")
    return None
