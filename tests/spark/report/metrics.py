"""A lake with metrics made by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.lake import Lake, StagedFile
from django_pgqueue.spark.schema import TABLES, arrow_schema

COUNTED = {column.name for column in TABLES["metrics"] if column.type == pa.int64()} | {"run_seconds", "retry_seconds"}


def metric(bucket_at: datetime, queue: str = "mail", channel: str | None = None, handler: str | None = None,
           **columns: Any) -> dict[str, Any]:  # fmt: skip
    """A row with nothing in it but what is given. Channel and handler None: the whole queue."""
    row: dict[str, Any] = dict.fromkeys(column.name for column in TABLES["metrics"])
    row |= dict.fromkeys(COUNTED, 0) | {"retries_by_reason": {}, "dead_by_reason": {}}
    row["level"] = "queue" if channel is None else "channel" if handler is None else "handler"
    return row | {"bucket_at": bucket_at, "queue": queue, "channel": channel, "handler": handler} | columns


def of_each_grain(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows that are one a day for the minute, the hour and the day: everything happened in that minute."""
    widths = {"minute": {}, "hour": {"minute": 0}, "day": {"hour": 0, "minute": 0}}
    return [
        row | {"grain": grain, "bucket_at": row["bucket_at"].replace(second=0, microsecond=0, **cut)}
        for row in rows
        for grain, cut in widths.items()
    ]


def lake_of(path: Path, rows: Iterable[dict[str, Any]], *, replace: bool = False) -> Lake:
    lake = Lake.open(path, create=True)
    parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        parts[f"grain={row['grain']}/day={row['bucket_at'].date()}"].append(row)
    with lake.writing() as writing:
        staged: list[StagedFile] = []
        for partition, content in parts.items():
            file = writing.stage("metrics", partition)
            # The grain is in the path alone.
            pq.write_table(pa.Table.from_pylist(content, arrow_schema("metrics")).drop_columns("grain"), file)
            staged.append(writing.staged(file))
        old = [file for file in lake.files("metrics") if replace and file.partition in parts]
        writing.commit("metrics", "rollup", staged, old, state={"rolled_up": lake.versions})
    return lake
