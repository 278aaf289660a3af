"""Load metrics into the database, one day of a grain at a time: the old rows are deleted, the lake's are copied."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pyarrow as pa

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import Lake, durable
from django_pgqueue.spark.lake.files import LakeFile, changed_partitions, day_of, files_of
from django_pgqueue.spark.lake.rows import read
from django_pgqueue.spark.lake.writing import lake_lock
from django_pgqueue.spark.source import Source

BATCH_ROWS = 5_000
# The grain is in the path alone.
METRICS = pa.schema([field for field in schema.arrow_schema("metrics") if field.name != "grain"])


COLUMNS = [column.name for column in schema.TABLES["metrics"]]
MAPS = {n for n, column in enumerate(schema.TABLES["metrics"]) if column.type == schema.COUNTS}
REMOVE = "DELETE FROM pgqueue_queue_metric WHERE grain = %s AND bucket_at >= %s AND bucket_at < %s"
# All grains are named, because the index begins with the grain.
EXPIRE = "DELETE FROM pgqueue_queue_metric WHERE grain IN ('minute', 'hour', 'day') AND bucket_at < %s"
LOADED = "loaded"  # the note in which the lake remembers it
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load.

    ``days``: the days of all grains together; ``rows``: the rows that were written; ``expired``: the old rows that were
    removed.
    """

    days: int = 0
    rows: int = 0
    expired: int = 0


def load_metrics(
    source: Source,
    lake: Lake,
    grains: Sequence[str] = ("hour", "day"),
    *,
    keep: timedelta = timedelta(days=90),
    everything: bool = False,
    now: datetime | None = None,
) -> Loaded:
    """Load the days that were computed since the last load; ``everything``: load all days of the lake.

    Rows that are older than ``keep`` are removed, and not loaded. The lake notes by grain up to which version of the
    metrics days were loaded, so that the next load repeats one that failed. Raises PipelineError.
    """
    oldest = midnight(((now or datetime.now(UTC)) - keep).date())
    with lake_lock(lake), source.connect(application_name="pgqueue spark rollup") as connection:
        metrics = lake.delta("metrics")
        files = files_of(metrics, "metrics")
        there = (lake.control / f"{LOADED}.json").exists() and not everything
        loaded: dict[str, int] = lake.note(LOADED) if there else {}
        changed = [
            (grain, day)
            for grain in grains
            for day in sorted(_changed(lake, files, grain, loaded.get(grain)))
            if midnight(day) >= oldest
        ]
        with source.errors():
            rows = sum(_load(connection, lake, files, grain, day) for grain, day in changed)
            expired = connection.execute(EXPIRE, [oldest]).rowcount
        loaded |= dict.fromkeys(grains, metrics.version())
        durable.replace(lake.control / f"{LOADED}.json", json.dumps(loaded, indent=1))
    return Loaded(len({day for _, day in changed}), rows, expired)


def midnight(day: date) -> datetime:
    """Return the start of a day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _changed(lake: Lake, files: Sequence[LakeFile], grain: str, since: int | None) -> set[date]:
    """Return the days of a grain that versions after ``since`` wrote or removed; None: all days."""
    try:
        if since is None:
            raise FileNotFoundError
        partitions = {each for actions in lake.log("metrics", since) for each in changed_partitions(actions)}
    except FileNotFoundError:
        # The log does not go back so far.
        partitions = {file.partition for file in files}
    return {day_of(partition) for partition in partitions if partition.startswith(f"grain={grain}/")}


def _load(connection: psycopg.Connection[Any], lake: Lake, files: Sequence[LakeFile], grain: str, day: date) -> int:
    paths = [lake.path / file.path for file in files if file.partition == f"grain={grain}/day={day}"]
    batches = (batch for path in paths for batch in read(path, METRICS).to_batches(BATCH_ROWS))
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    with connection.transaction():
        connection.execute(REMOVE, [grain, midnight(day), midnight(day) + ONE_DAY])
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY pgqueue_queue_metric ({', '.join(COLUMNS)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(_values(grain, row))
            return cursor.rowcount


def _values(grain: str, row: Sequence[Any]) -> list[Any]:
    # Most rows have no reason.
    return [
        (json.dumps(dict(value)) if value else "{}") if n in MAPS else value for n, value in enumerate((grain, *row))
    ]
