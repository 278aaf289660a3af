"""Writes the metrics of a report as CSV, for a spreadsheet: a row for each day, queue, channel and handler."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from django_pgqueue.spark.report.read import COLUMNS, REASONS, Data

# A spreadsheet takes a text that begins with one of these for a formula, and names come from clients.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def metrics_csv(data: Data) -> str:
    """Return the rows by day, of all levels, below a line with the names of the columns."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(["day", *COLUMNS[:1], *COLUMNS[2:]])
    rows = [] if data.by_day is None else data.by_day.sort_by([(name, "ascending") for name in ORDER]).to_pylist()
    for row in rows:
        lines.writerow(
            [row["bucket_at"].date().isoformat(), *(_cell(name, row[name]) for name in COLUMNS if name != "bucket_at")]
        )
    return written.getvalue()


ORDER = ("bucket_at", "queue", "level", "channel", "handler")


def _cell(column: str, value: Any) -> Any:
    if column in REASONS:
        value = json.dumps(dict(value or {}), ensure_ascii=False, sort_keys=True)
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
