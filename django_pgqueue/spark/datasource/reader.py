"""Implement ``spark.read``: live messages, the archive, dead letters and channels, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql.datasource import DataSourceReader, InputPartition

from django_pgqueue.spark.datasource.options import ReadOptions
from django_pgqueue.spark.datasource.ranges import Range, by_block, by_id, distribute
from django_pgqueue.spark.datasource.tables import TABLES, chosen_columns, quoted_literal, select

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from django_pgqueue.spark.source import Source


class Statements(InputPartition):
    """The statements that one task runs, one after the other."""

    def __init__(self, statements: Sequence[str]) -> None:
        self.statements = list(statements)


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
            existing = types(connection, table.name)
            match options.table:
                case "archive":
                    ranges = list(by_block(connection, options.since, options.until))
                case "channel":
                    ranges = [Range("true")]
                case _:
                    ranges = list(by_id(connection, table))
        statements = [
            f"{select(table, self.columns, existing, part.rows)} WHERE {part.condition}{self.filters()}"
            for part in ranges
        ]
        return [Statements(share) for share in distribute(statements, options.partitions)] or [Statements([])]

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

    # Spark passes the objects that partitions() returned.
    def read(self, partition: Statements) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # see above
        return read_batches(self.source, partition.statements, self.schema)


def read_batches(source: Source, statements: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the statements, one after the other, over one connection. Without a statement it opens none."""
    if statements:
        with source.reader() as reader:
            for statement in statements:
                yield from reader.batches(statement, schema)


def types(connection: psycopg.Connection[Any], table: str) -> dict[str, str]:
    """Return the columns of a table with their types. An older database has fewer columns."""
    rows = connection.execute(
        "SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute AS a"
        " WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped",
        [table],
    )
    return dict(rows.fetchall())
