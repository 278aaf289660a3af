"""The section that shows which data the lake holds, and up to when."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.charts import value_text
from django_pgqueue.spark.report.holdings import Holdings
from django_pgqueue.spark.report.html import Section, html_table, tiles


def lake(held: Holdings) -> Section:
    """Return the section: the last export and rollup, and the size of each table."""
    seen = "more was exported since" if held.rollup_due else "of all that is here"
    figures = [
        ("Last export", _moment(held.exported_at), f"transactions before {held.exported_xid or '–'}"),
        ("Last rollup", _moment(held.rolled_up_at), seen),
    ]
    rows = [
        [
            one.table,
            value_text(one.days),
            value_text(one.files),
            f"{value_text(one.bytes / 1e6)} MB",
            value_text(one.rows),
        ]
        for one in held.tables
    ]
    lines = html_table(f"The lake {held.name}", ["Table", "Days", "Files", "Size", "Rows"], rows)
    return Section("lake", "Lake", tiles(figures) + lines)


def _moment(time: datetime | None) -> str:
    return f"{time:%d %b %Y %H:%M}" if time else "–"
