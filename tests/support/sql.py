"""Statements in the session of Django, in the transaction of the test."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils.dateparse import parse_duration
from psycopg.adapt import Buffer, Loader


class IsoInterval(Loader):
    """Read an interval in a style that psycopg does not read, for tests on a server with the settings of another."""

    def load(self, data: Buffer) -> timedelta:
        found = parse_duration(bytes(data).decode())
        assert found is not None, bytes(data)
        return found


def sql(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Execute a statement in Django's session. Returns its rows, or an empty list if it returns none."""
    with connection.cursor() as cursor:
        if connection.connection.info.parameter_status("IntervalStyle") == "iso_8601":  # pytest --hostile
            cursor.adapters.register_loader("interval", IsoInterval)
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall()) if cursor.description else []


def value(statement: str, *parameters: Any) -> Any:
    """Return the only value of the only row of a statement."""
    [[only]] = sql(statement, *parameters)
    return only
