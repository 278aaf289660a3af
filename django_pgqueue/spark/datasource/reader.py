"""Implement ``spark.read``: live messages, the archive, dead letters and channels, as Arrow batches.

Each read is cut into short statements, so that none pins the xmin horizon for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql.datasource import DataSourceReader, InputPartition

from django_pgqueue.spark.datasource.options import ReadOptions
from django_pgqueue.spark.datasource.tables import TABLES, chosen_columns, quoted_literal, select
from django_pgqueue.spark.export.archive import find_partitions
from django_pgqueue.spark.source import columns_of, only

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# A range takes between some tenths of a second and a second, so a hundred thousand rows are work for several tasks.
ROWS = 50_000
RANGE_BYTES = 64_000_000


class TableReader(DataSourceReader):
    """Read the columns of ``schema`` from one table.

    Each range of rows is read at a moment of its own: a row that is settled while a live table is read may be missing,
    but no row is read twice.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.source = options.source
        self.columns, self.schema = chosen_columns(TABLES[options.table], schema)

    def partitions(self) -> list[InputPartition]:
        """Split the table into ranges, and deal these to as many partitions as the options say, or fewer."""
        options, table = self.options, TABLES[self.options.table]
        with self.source.connect() as connection, self.source.errors():
            existing = columns_of(connection, table.name)
            match options.table:
                case "archive":
                    ranges = list(by_block(connection, options.since, options.until))
                case "channel":
                    ranges = [("", "true")]
                case _:
                    ranges = [("", condition) for condition in by_id(connection, table.name)]
        statements = [
            f"{select(table, self.columns, existing, rows)} WHERE {condition}{self.filters()}"
            for rows, condition in ranges
        ]
        # In their order, in lists of about equal length, of which none is empty.
        count, lists = len(statements), min(len(statements), options.partitions)
        shares = [statements[count * n // lists : count * (n + 1) // lists] for n in range(lists)]
        return [InputPartition(share) for share in shares or [[]]]

    def filters(self) -> str:
        """Return the conditions of the options queue, channel, since and until, as SQL that begins with AND."""
        table, options = TABLES[self.options.table], self.options
        conditions = [
            (options.queue, "queue = "),
            (options.channel, f"{table.channel} = "),
            (options.since, f"{table.time} >= "),
            (options.until, f"{table.time} < "),
        ]
        return "".join(
            f" AND {condition}{quoted_literal(value)}" for value, condition in conditions if value is not None
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.source.read(partition.value, self.schema)


def by_block(
    connection: psycopg.Connection[Any], since: datetime | None, until: datetime | None
) -> Iterator[tuple[str, str]]:
    """Yield partitions of the archive and ranges of their pages. The rows never move, so each is read once."""
    for partition in find_partitions(connection):
        if partition.day is None or not outside(partition.day, since, until):
            yield from ((partition.relation, condition) for condition in partition.ranges(RANGE_BYTES))


def outside(day: date, since: datetime | None, until: datetime | None) -> bool:
    """Return whether no row of this day (UTC) can lie between ``since`` and ``until``."""
    begin = datetime.combine(day, time.min, UTC)
    return (until is not None and begin >= until) or (since is not None and begin + timedelta(days=1) <= since)


def by_id(connection: psycopg.Connection[Any], table: str) -> Iterator[str]:
    """Yield ranges of ids with about equally many rows.

    A row that is updated meanwhile keeps its id, so it is not read twice.
    """
    last = 0
    while True:
        rows = connection.execute(
            f"SELECT max(n.id) FROM (SELECT t.id FROM {table} AS t WHERE t.id > %s ORDER BY t.id LIMIT %s) AS n",  # noqa: S608
            [last, ROWS],
        )
        [upto] = only(rows)
        if upto is None:
            return
        yield f"id > {last} AND id <= {upto}"
        last = upto
