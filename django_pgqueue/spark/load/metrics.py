"""Load metrics into the database, one day of a grain at a time: the old rows are deleted, the lake's are copied."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.commit import day_of
from django_pgqueue.spark.load.rows import copy_into, read_rows
from django_pgqueue.spark.source import Source

TABLE = "pgqueue_queue_metric"
COLUMNS = [column.name for column in schema.TABLES["metrics"]]
MAPS = {n for n, column in enumerate(schema.TABLES["metrics"]) if column.type == schema.COUNTS}
REMOVE = "DELETE FROM pgqueue_queue_metric WHERE grain = %s AND bucket_at >= %s AND bucket_at < %s"
# All grains are named, because the index begins with the grain.
EXPIRE = "DELETE FROM pgqueue_queue_metric WHERE grain IN ('minute', 'hour', 'day') AND bucket_at < %s"
MOST_COMMITS = 100  # since the last load, before a load commits although nothing changed
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
    lake: ParquetLake,
    grains: Sequence[str] = ("hour", "day"),
    *,
    keep: timedelta = timedelta(days=90),
    everything: bool = False,
    now: datetime | None = None,
) -> Loaded:
    """Load the days that were computed since the last load; ``everything``: load all days of the lake.

    Rows that are older than ``keep`` are removed, and not loaded. The lake's state remembers in ``loaded``, by grain,
    up to which commit days were loaded, so that the next load repeats one that failed. Raises PipelineError.
    """
    oldest = midnight(((now or datetime.now(UTC)) - keep).date())
    with lake.writing() as writing, source.connect(application_name="pgqueue spark rollup") as connection:
        head = lake.head
        loaded: dict[str, int] = {} if everything else dict(head.state.get("loaded", {}))
        changed = [
            (grain, day)
            for grain in grains
            for day in sorted(_changed(lake, grain, loaded.get(grain, 0)))
            if midnight(day) >= oldest
        ]
        with source.errors():
            rows = sum(_load(connection, lake, grain, day) for grain, day in changed)
            expired = connection.execute(EXPIRE, [oldest]).rowcount
        # Otherwise each load would read all commits since one that changed something.
        if changed or head.number - min((loaded.get(grain, 0) for grain in grains), default=0) > MOST_COMMITS:
            writing.commit("load", state={"loaded": loaded | dict.fromkeys(grains, head.number)})
    return Loaded(len({day for _, day in changed}), rows, expired)


def midnight(day: date) -> datetime:
    """Return the start of a day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _changed(lake: ParquetLake, grain: str, since: int) -> set[date]:
    """Return the days of a grain that commits after ``since`` wrote or removed."""
    folder = f"metrics/grain={grain}/"
    return {
        day_of(path.rpartition("/")[0])
        for number in lake.commit_numbers()
        if number > since
        for commit in [lake.commit(number)]
        for path in (*commit.removed, *(file.path for file in commit.files))
        if path.startswith(folder)
    }


def _load(connection: psycopg.Connection[Any], lake: ParquetLake, grain: str, day: date) -> int:
    files = lake.path.joinpath("metrics", f"grain={grain}", f"day={day}").glob("*.parquet")
    rows = (_row(grain, row) for row in read_rows(files, COLUMNS[1:]))
    with connection.transaction():
        connection.execute(REMOVE, [grain, midnight(day), midnight(day) + ONE_DAY])
        return copy_into(connection, TABLE, COLUMNS, rows)


def _row(grain: str, row: Sequence[Any]) -> list[Any]:
    return [json.dumps(dict(value)) if n in MAPS else value for n, value in enumerate((grain, *row))]
