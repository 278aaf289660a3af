"""Rows of statements that always have one."""

from __future__ import annotations

from typing import Any

import psycopg


def only(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Its row. Raises LookupError if there is none, which no statement of ours does."""
    row = cursor.fetchone()
    if row is None:
        raise LookupError("the statement has no row")
    return row
