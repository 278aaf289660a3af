"""Copy Parquet files into a table with COPY, with a few thousand rows in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql

from django_pgqueue.spark.errors import PipelineError

BATCH_ROWS = 5_000


def read_rows(files: Iterable[Path], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the files; a column that an older file does not have is None.

    Raises PipelineError, with the name of a file that cannot be read.
    """
    for path in files:
        try:
            with pq.ParquetFile(path) as file:
                there = set(file.schema_arrow.names)
                for batch in file.iter_batches(BATCH_ROWS, columns=[name for name in columns if name in there]):
                    nothing = [None] * batch.num_rows
                    values = (batch.column(name).to_pylist() if name in there else nothing for name in columns)
                    yield from zip(*values, strict=True)
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{path} cannot be read ({error}): compute it anew with rollup --all.") from None


def copy_into(
    connection: psycopg.Connection[Any], table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> int:
    """Copy rows into a table. Returns the number of rows."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    written = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)
            written += 1
    return written
