"""Statements in the session of Django, in the transaction of the test."""

from __future__ import annotations

from typing import Any

from django.db import connection


def sql(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Execute a statement in Django's session. Returns its rows, or an empty list if it returns none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall()) if cursor.description else []


def value(statement: str, *parameters: Any) -> Any:
    """Return the only value of the only row of a statement."""
    [[only]] = sql(statement, *parameters)
    return only
