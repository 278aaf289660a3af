"""Fetch the row of statements that always return one."""

from __future__ import annotations

from typing import Any

import psycopg


def only(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the only row of a statement. Raises LookupError if there is none."""
    row = cursor.fetchone()
    if row is None:
        raise LookupError("the statement has no row")
    return row
