"""Rows for the archive and the dead letters, many in one statement.

The columns are SQL expressions over ``i``, the number of the row from 0: ``fill_archive(database, 1000,
channel="'tenant ' || i % 3")``. A column can be made of those before it: ``{created_at} + interval '1 hour'``.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import psycopg

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
DAY = date(2026, 3, 14)
# A message each second of the day, which waits for a second and runs for two.
COLUMNS = {
    "id": "nextval(pg_get_serial_sequence('pgqueue_message', 'id'))",
    "queue": "'default'",
    "channel": "'default'",
    "handler": "'shop.confirm'",
    "payload": "jsonb_build_object('order', i)",
    "priority": "0",
    "attempts": "1",
    "max_attempts": "5",
    "created_at": "{day} + i % 80000 * interval '1 second'",
    "dequeue_at": "{created_at}",
    "leased_at": "{dequeue_at} + interval '1 second'",
    "lease_token": "gen_random_uuid()",
    "worker": "'host:1'",
}
ARCHIVE = COLUMNS | {"archived_at": "{leased_at} + interval '2 seconds'", "outcome": "'completed'"}
DEAD = COLUMNS | {"attempts": "5", "dead_at": "{leased_at} + interval '2 seconds'", "reason": "'failed'"}


def fill_archive(database: psycopg.Connection[Any], rows: int, day: date = DAY, **columns: str) -> None:
    """``rows`` settled messages of that day (UTC), whose partition is made."""
    make_partition(database, day)
    _fill(database, "pgqueue_archived_message", rows, day, ARCHIVE | columns)


def fill_dead_letters(database: psycopg.Connection[Any], rows: int, day: date = DAY, **columns: str) -> None:
    """``rows`` dead letters of that day (UTC)."""
    _fill(database, "pgqueue_dead_letter", rows, day, DEAD | columns)


def make_partition(database: psycopg.Connection[Any], day: date) -> None:
    """The archive's partition of that day (UTC), which may be long ago."""
    database.execute(
        f"CREATE TABLE IF NOT EXISTS pgqueue_archived_message_{day:%Y%m%d} PARTITION OF pgqueue_archived_message "
        f"FOR VALUES FROM ('{day} 00:00+00') TO ('{day + timedelta(days=1)} 00:00+00')"
    )


def _fill(database: psycopg.Connection[Any], table: str, rows: int, day: date, columns: dict[str, str]) -> None:
    known = {"day": f"timestamptz '{day} 00:00+00'"}
    for name, expression in columns.items():
        known[name] = PLACEHOLDER.sub(lambda match: f"({known.get(match[1], match[0])})", expression)
    values = ", ".join(known[name] for name in columns)
    database.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM generate_series(0, {rows - 1}) AS i"
    )
