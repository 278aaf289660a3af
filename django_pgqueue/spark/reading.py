"""Rows as Arrow batches: by ADBC, or by psycopg where that is not installed. Both give the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import pq

if TYPE_CHECKING:
    from .source import Source

SQLSTATE = re.compile(r"SQLSTATE: (\w{5})")
CONNECTION_FAILED = "08006"
# libpq gives rows in chunks since version 17; few, as each may hold some megabytes.
CHUNK = 16 if pq.version() >= 170000 else 1


def with_adbc(source: Source, sql: str, schema: pa.Schema, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    from adbc_driver_manager import Error
    from adbc_driver_postgresql import StatementOptions, dbapi

    hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)}
    try:
        with (
            dbapi.connect(source.conninfo, autocommit=True) as connection,
            connection.cursor(adbc_stmt_kwargs=hint) as cursor,
        ):
            cursor.execute(sql)
            for batch in cursor.fetch_record_batch():
                yield batch.cast(schema)
    except Error as error:
        raise source.error(error, _sqlstate(error)) from None
    except (pa.ArrowException, OSError) as error:
        # A connection that breaks while rows come is an error of the Arrow stream.
        raise source.error(error, _sqlstate(error)) from None


def _sqlstate(error: Exception) -> str:
    """Of an error of libpq, which without one is about the connection."""
    told = SQLSTATE.search(str(error))
    return getattr(error, "sqlstate", None) or (told[1] if told else CONNECTION_FAILED)


def with_psycopg(source: Source, sql: str, schema: pa.Schema, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[Any, ...]] = []
    size = 0
    with source.connect() as connection, connection.cursor(binary=True) as cursor:
        for row in cursor.stream(sql.encode(), size=CHUNK):
            rows.append(row)
            size += _size(row)
            if size >= batch_bytes:
                yield _batch(rows, schema)
                rows, size = [], 0
        if rows:
            yield _batch(rows, schema)


def _size(row: tuple[Any, ...]) -> int:
    """About how many bytes it takes in Arrow."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
