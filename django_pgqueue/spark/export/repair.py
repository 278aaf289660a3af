"""Find the rows that the lake lacks, although an earlier export should have brought them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.export.archive import Partition, find_partitions
from django_pgqueue.spark.fetch import only
from django_pgqueue.spark.lake import ParquetLake, StagedFile
from django_pgqueue.spark.lake.writing import count_rows
from django_pgqueue.spark.transforms.readable import unreadable

DEAD_LETTERS = """
SELECT (d.dead_at AT TIME ZONE 'UTC')::date, count(*) FROM pgqueue_dead_letter AS d
WHERE d.xid < %s::text::xid8 AND d.dead_at > '-infinity' AND d.dead_at < 'infinity' GROUP BY 1 ORDER BY 1
"""
COUNT_BYTES = 512 * 1024 * 1024  # what one statement counts, about a second


def days_that_differ(connection: psycopg.Connection[Any], lake: ParquetLake) -> list[date]:
    """Return the days on which the lake cannot be read, or lacks rows that an earlier export should have brought.

    A day on which the database holds fewer rows than the lake is left as it is.
    """
    exported = lake.state.get("exported_xid", 0)
    differing = []
    for partition in find_partitions(connection):
        if partition.day is None:
            continue
        present = rows_in_lake(lake, "archive", partition.day)
        if present is None or present < rows_in_database(connection, partition, exported):
            differing.append(partition.day)
    return differing


def lacking_letters(connection: psycopg.Connection[Any], lake: ParquetLake) -> dict[date, str]:
    """Return, by each day of the database's dead letters, a condition for those that an earlier export should have
    brought; "": the lake has them all.

    Unlike those of the archive, the other files of such a day stay: they may have letters that the database has
    deleted.
    Raises PipelineError when one of them cannot be read.
    """
    exported = lake.state.get("exported_xid", 0)
    found = {}
    for day, rows in connection.execute(DEAD_LETTERS, [exported]).fetchall():
        present, found[day] = rows_in_lake(lake, "dead_letter", day), ""
        if present is None or present < rows:
            known = ",".join(str(number) for path in lake.files("dead_letter", [day]) for number in ids_in(path))
            found[day] = (
                f"xid < '{exported}'::xid8 AND id <> ALL ('{{{known}}}'::bigint[]) "
                f"AND dead_at >= '{day} 00:00+00' AND dead_at < '{day + timedelta(days=1)} 00:00+00'"
            )
    return found


def recounted(
    lake: ParquetLake, compared: Iterable[tuple[str, date]], files: Iterable[StagedFile], rewritten: Collection[date]
) -> dict[str, dict[str, int]]:
    """Return the rows by table and day, as they will be when these files are there and these days are rewritten.

    ``compared``: tables with a day whose rows are counted in the files of the lake, whatever its state says.
    """
    counted = {table: dict(days) for table, days in lake.state.get("rows", {}).items()}
    for table, day in compared:
        goes = table == "archive" and day in rewritten
        counted.setdefault(table, {})[day.isoformat()] = 0 if goes else rows_in_lake(lake, table, day) or 0
    counted = {table: {day: rows for day, rows in days.items() if rows} for table, days in counted.items()}
    return {table: days for table, days in count_rows(counted, files, ()).items() if days}


def ids_in(path: Path) -> list[int]:
    """Return the ids in a file. Raises PipelineError when it cannot be read."""
    try:
        ids: list[int] = pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
    except (OSError, pa.ArrowException):
        raise unreadable(str(path)) from None
    return ids


def rows_in_lake(lake: ParquetLake, table: str, day: date) -> int | None:
    """Return the number of rows in the files of a day; None: a file cannot be read."""
    try:
        rows: int = sum(pq.read_metadata(path).num_rows for path in lake.files(table, [day]))
    except (OSError, pa.ArrowException):
        return None
    return rows


def rows_in_database(connection: psycopg.Connection[Any], partition: Partition, exported: int) -> int:
    """Return the number of a partition's rows below a horizon, counted in short statements."""
    sql = f"SELECT count(*) FROM {partition.relation} WHERE xid < '{exported}'::xid8 AND "  # noqa: S608
    return sum(only(connection.execute(sql + blocks))[0] for blocks in partition.ranges(COUNT_BYTES))
