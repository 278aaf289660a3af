"""Read rows of the lake with pyarrow, for commands that need no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.schema import arrow_schema


def read_table(
    table: str,
    paths: Iterable[Path],
    columns: Sequence[str],
    keep: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> pa.Table:
    """Read columns of files of a table. ``keep`` chooses rows of each file, before the next one is read.

    Raises PipelineError when a file cannot be read.
    """
    schema = pa.schema([arrow_schema(table).field(name) for name in columns])
    return pa.concat_tables([schema.empty_table(), *(keep(read_parquet(path, schema)) for path in paths)])


def read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a file; a column that an older file does not have is NULL. Raises PipelineError."""
    try:
        with pq.ParquetFile(path) as file:
            rows = file.read([name for name in schema.names if name in file.schema_arrow.names])
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(
            f"{path} cannot be read ({error}): remove it and run rollup --all if it has metrics, or restore it from a "
            "backup."
        ) from None
    there = set(rows.column_names)
    values = [
        rows[field.name].cast(field.type) if field.name in there else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(values, schema=schema)
