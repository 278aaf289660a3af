"""Read rows as Arrow batches: with ADBC, or with psycopg where ADBC is not installed. The results are the same."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import psycopg
import pyarrow as pa
from psycopg import pq

BATCH_BYTES = 16 * 1024 * 1024
SQLSTATE = re.compile(r"SQLSTATE: (\w{5})")
CONNECTION_FAILED = "08006"
# libpq gives rows in chunks since version 17; few, as each may hold some megabytes.
CHUNK = 16 if pq.version() >= 170000 else 1


class Connectable(Protocol):
    """The part of :class:`django_pgqueue.spark.source.Source` that a reader needs."""

    @property
    def conninfo(self) -> str: ...
    def connect(self) -> psycopg.Connection[Any]:
        """Connect with psycopg. Raises SourceLost or PipelineError."""

    def errors(self) -> AbstractContextManager[None]:
        """Convert the errors of psycopg in the block."""

    def error(self, error: Exception, sqlstate: str) -> Exception:
        """Return the PipelineError for an error of a driver with this SQLSTATE."""


class BatchReader(Protocol):
    """A connection that reads one statement after the other; between them it holds no snapshot."""

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement in batches of about ``batch_bytes`` bytes, of exactly this schema."""


def find_adbc() -> bool:
    """Return whether the PostgreSQL driver of ADBC is installed."""
    return importlib.util.find_spec("adbc_driver_postgresql") is not None


@contextmanager
def reading(source: Connectable, *, adbc: bool | None = None, batch_bytes: int = BATCH_BYTES) -> Iterator[BatchReader]:
    """Open a reader. ``adbc``: use ADBC (default: where it is installed)."""
    if find_adbc() if adbc is None else adbc:
        with _adbc_errors(source):
            from adbc_driver_postgresql import dbapi

            connection = dbapi.connect(source.conninfo, autocommit=True)
        with connection:
            yield AdbcReader(source, connection, batch_bytes)
    else:
        with source.connect() as session:
            yield PsycopgReader(source, session, batch_bytes)


class AdbcReader:
    def __init__(self, source: Connectable, connection: Any, batch_bytes: int) -> None:
        from adbc_driver_postgresql import StatementOptions

        self.source = source
        self.connection = connection
        self.options = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)}

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement in batches of this schema. Raises what ``Connectable.error`` returns."""
        with _adbc_errors(self.source), self.connection.cursor(adbc_stmt_kwargs=self.options) as cursor:
            cursor.execute(sql)
            for batch in cursor.fetch_record_batch():
                yield batch.cast(schema)


@contextmanager
def _adbc_errors(source: Connectable) -> Iterator[None]:
    from adbc_driver_manager import Error

    try:
        yield
    except (Error, pa.ArrowException, OSError) as error:
        # A connection that breaks while rows come is an error of the Arrow stream.
        found = SQLSTATE.search(str(error))
        sqlstate = getattr(error, "sqlstate", None) or (found[1] if found else CONNECTION_FAILED)
        raise source.error(error, sqlstate) from None


class PsycopgReader:
    def __init__(self, source: Connectable, connection: Any, batch_bytes: int) -> None:
        self.source = source
        self.connection = connection
        self.batch_bytes = batch_bytes

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement in batches of about ``batch_bytes`` bytes. Raises what ``Connectable.errors``
        raises.
        """
        rows: list[tuple[Any, ...]] = []
        size = 0
        with self.source.errors(), self.connection.cursor(binary=True) as cursor:
            for row in cursor.stream(sql.encode(), size=CHUNK):
                rows.append(row)
                size += _size(row)
                if size >= self.batch_bytes:
                    yield _batch(rows, schema)
                    rows, size = [], 0
            if rows:
                yield _batch(rows, schema)


def _size(row: tuple[Any, ...]) -> int:
    """Return the approximate size of a row in Arrow, in bytes."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
