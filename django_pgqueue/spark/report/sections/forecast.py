"""The section with the expected backlog of the next hours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.charts import Series, line_plot
from django_pgqueue.spark.report.html import Section, html_paragraph
from django_pgqueue.spark.report.read import sums

COLUMNS = ("expected_enqueued", "expected_capacity", "expected_backlog")


def forecast(rows: pa.Table, queues: Sequence[str]) -> Section:
    """Return the section of the forecast.

    `rows`: the rows of all computations; the newest computation of each queue is shown.
    """
    drawn = [_queue(rows.filter(pc.equal(rows["queue"], name)), name) for name in queues]
    if not any(drawn):
        return Section("forecast", "Forecast", html_paragraph("There is no forecast yet: rollup makes it."))
    return Section("forecast", "Forecast", f'<div class="plots">{"".join(drawn)}</div>')


def _queue(rows: pa.Table, name: str) -> str:
    if not rows.num_rows:
        return ""
    computed_at: datetime = pc.max(rows["computed_at"]).as_py()
    newest = sums(rows.filter(pc.equal(rows["computed_at"], computed_at)), ["hour_at"], COLUMNS)
    newest.sort(key=lambda row: row["hour_at"])
    series = [
        Series("backlog", [row["expected_backlog"] for row in newest], "pgq-bad"),
        Series("enqueued in the hour", [row["expected_enqueued"] for row in newest], "pgq-1"),
        Series("could be settled in the hour", [row["expected_capacity"] for row in newest], "pgq-rest"),
    ]
    note = f"computed {computed_at:%d %b %Y %H:%M} UTC"
    return line_plot(f"Expected of {name}", [row["hour_at"] for row in newest], series, note=note)
