"""Lakes made by hand: rows as dicts, with columns that a test does not care about filled in."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.schema import DAYS, arrow_schema

START = datetime(2026, 3, 14, 9, tzinfo=UTC)
ids = itertools.count(1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def row(created: float = 0, leased: float | None = 0, settled: float = 1, **more: Any) -> dict[str, Any]:
    """A message that was settled; seconds after START."""
    return {
        "id": next(ids),
        "queue": "default",
        "channel": "a",
        "priority": 0,
        "attempts": 1,
        "created_at": at(created),
        "dequeue_at": at(created),
        "leased_at": None if leased is None else at(leased),
        "settled_at": at(settled),
        "worker": "host:1",
    } | more


def failure(attempt: int, leased: float, failed: float) -> dict[str, Any]:
    """An entry of errors."""
    return {"attempt": attempt, "leased_at": at(leased).isoformat(), "at": at(failed).isoformat(), "worker": "host:1"}


def channel(name: str, exported: float = 1000, **more: Any) -> dict[str, Any]:
    known = {"exported_at": at(exported), "queue": "default", "name": name, "release_burst": 1, "weight": 1}
    return known | more


def make_lake(path: Path, **tables: list[dict[str, Any]]) -> ParquetLake:
    """``archive=[row(…)], dead_letter=[…], channel=[channel(…)]``, each day in a file."""
    lake = ParquetLake.open(path, create=True)
    with lake.writing() as writing:
        staged = []
        for table, rows in tables.items():
            day_column = DAYS.get(table, "exported_at")
            for each in rows:
                if "settled_at" in each:
                    each[day_column] = each.pop("settled_at")
                if isinstance(each.get("errors"), list):
                    each["errors"] = json.dumps(each["errors"])
            for day in sorted({each[day_column].date() for each in rows}):
                file = writing.stage(table, f"day={day}")
                of_day = [each for each in rows if each[day_column].date() == day]
                pq.write_table(pa.Table.from_pylist(of_day, arrow_schema(table)), file)
                staged.append(writing.staged(file))
        writing.commit("export", staged)
    return lake
