"""The metrics, computed by PostgreSQL from its own tables: what the lake's must be equal to, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from deltalake import DeltaTable

from django_pgqueue.spark import schema

COLUMNS = [column.name for column in schema.TABLES["metrics"]]

METRICS = Path(__file__).with_name("truth.sql").read_text(encoding="utf-8")

Rows = dict[tuple[Any, ...], dict[str, Any]]


def expected_metrics(database: psycopg.Connection[Any], sla: str = "{}") -> Rows:
    """By grain, bucket, queue, channel, handler. ``sla``: a JSON object of seconds."""
    return by_key(database.execute(METRICS, {"sla": sla}).fetchall())


def lake_metrics(lake: Path) -> Rows:
    """Return the metrics as any reader of Delta sees them."""
    table = DeltaTable(lake / "metrics").to_pyarrow_table(columns=COLUMNS)
    maps = {"retries_by_reason", "dead_by_reason"}
    rows = [tuple(dict(value) if name in maps else value for name, value in row.items()) for row in table.to_pylist()]
    found = by_key(rows)
    assert len(found) == len(rows), "a row is there twice"
    return found


def by_key(rows: list[tuple[Any, ...]]) -> Rows:
    return {row[:5]: dict(zip(COLUMNS[5:], row[5:], strict=True)) for row in rows}
