"""The section that shows which data the lake holds, and up to when, from the logs of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django_pgqueue.charts import value_text
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.tables import METADATA
from django_pgqueue.spark.report.html import Section, html_table, tiles
from django_pgqueue.spark.schema import TABLES
from django_pgqueue.spark.transforms.touched import find_touched


@dataclass(frozen=True, slots=True)
class TableHoldings:
    """The data of one table."""

    table: str
    days: int
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """The data of a lake.

    ``exported_xid``: all transactions before it are in the lake; None: nothing was exported. ``rollup_due``: there are
    exported rows that the metrics do not count yet.
    """

    name: str = ""
    exported_at: datetime | None = None
    exported_xid: int | None = None
    rolled_up_at: datetime | None = None
    rollup_due: bool = False
    tables: Sequence[TableHoldings] = ()


def holdings(lake: Lake) -> Holdings:
    """Return what the lake holds, from the logs of its tables."""
    metrics = lake.delta("metrics")
    exported_at = lake.state.get("exported_at")
    rolled_up = next((commit for commit in metrics.history() if '"rollup"' in commit.get(METADATA, "")), None)
    return Holdings(
        name=lake.description.name,
        exported_at=datetime.fromisoformat(exported_at) if exported_at else None,
        exported_xid=lake.exported() if exported_at else None,
        rolled_up_at=datetime.fromtimestamp(rolled_up["timestamp"] / 1000, UTC) if rolled_up else None,
        rollup_due=bool(find_touched(lake).days),
        tables=[_held(lake, table) for table in TABLES],
    )


def _held(lake: Lake, table: str) -> TableHoldings:
    files = lake.files(table)
    rows = sum(file.rows for file in files)
    return TableHoldings(table, len({file.day for file in files}), len(files), sum(file.bytes for file in files), rows)


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
