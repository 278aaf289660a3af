"""Find the days on which the lake differs from the archive."""

from __future__ import annotations

from datetime import date
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.export.archive import Partition, find_partitions
from django_pgqueue.spark.fetch import only
from django_pgqueue.spark.lake import ParquetLake

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
