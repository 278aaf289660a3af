"""The server's own record: triggers that are installed for a run, and the rows that they wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from .events import Row

SQL = Path(__file__).with_name("audit.sql")
TIMES = {"at", "leased_at", "expires_at", "was_expires_at", "dequeue_at"}
# Needed by the server that is audited: when each transaction committed.
SETTINGS = {"track_commit_timestamp": "on"}


def install(session: psycopg.Connection[Any]) -> None:
    session.execute(SQL.read_text())


def column(name: str) -> str:
    if name == "committed":
        return f"{micros('pg_xact_commit_timestamp(xid::xid)')} AS committed"
    if name == "xid":
        return "xid::text::bigint AS xid"
    return f"{micros(name)} AS {name}" if name in TIMES else name


def micros(value: str) -> str:
    return f"(extract(epoch FROM {value}) * 1000000)::bigint"


def dump(session: psycopg.Connection[Any], folder: Path) -> int:
    """Write audit.jsonl. Returns the number of rows."""
    columns = ", ".join(map(column, Row._fields))
    # csv with quotes that no JSON contains: COPY's text format would double the backslashes.
    query = (
        "COPY (SELECT json_strip_nulls(row_to_json(a))::text FROM "
        f"(SELECT {columns} FROM chaos_audit ORDER BY seq) AS a) "
        "TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')"
    )
    rows = 0
    with (folder / "audit.jsonl").open("wb") as file, session.cursor() as cursor, cursor.copy(query) as copy:
        for chunk in copy:
            file.write(chunk)
            rows += bytes(chunk).count(b"\n")
    return rows
