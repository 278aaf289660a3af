"""The programs that are compared, each a process of its own: prints the seconds of a run for each line that it reads.

``python -m verification.benchmarks.spark.contestants NAME``, the source in PGQUEUE_SOURCE; a line is the path to
write to. Starting Python, Spark and libraries is not counted; connecting is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark import schema
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source, columns_of

MASTER = "local[*,4]"
BATCH_ROWS = 50_000
ARROW = schema.arrow_schema("archive")
Run = Callable[[Path], None]
# The types that psycopg needs to make values of the texts of a COPY.
TYPES = {"int64": "int8", "int32": "int4", "int16": "int2", "string": "text", "binary": "bytea"}


def query(source: Source) -> str:
    """The same expressions that the export reads."""
    with source.connect() as connection:
        existing = columns_of(connection, schema.SOURCES["archive"])
    return schema.select(schema.TABLES["archive"], existing, schema.SOURCES["archive"])


@contextmanager
def adbc(source: Source) -> Iterator[Run]:
    """One process, one statement, one file."""

    def run(path: Path) -> None:
        with pq.ParquetWriter(path, ARROW, compression="zstd") as writer:
            for batch in source.read([query(source)], ARROW):
                writer.write_batch(batch)
        durable.sync_to_disk(path)

    yield run


@contextmanager
def copy(source: Source) -> Iterator[Run]:
    """One process, one COPY in text through psycopg, one file."""

    def run(path: Path) -> None:
        with (
            psycopg.connect(source.conninfo, options="-c timezone=UTC") as connection,
            connection.cursor() as cursor,
            pq.ParquetWriter(path, ARROW, compression="zstd") as writer,
            cursor.copy(f"COPY ({query(source)}) TO STDOUT") as stream,
        ):
            stream.set_types([TYPES.get(str(field.type), "timestamptz") for field in ARROW])
            rows = []
            for row in stream.rows():
                rows.append(row)
                if len(rows) == BATCH_ROWS:
                    writer.write_batch(batch(rows))
                    rows = []
            if rows:
                writer.write_batch(batch(rows))
        durable.sync_to_disk(path)

    yield run


def batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


@contextmanager
def spark(source: Source) -> Iterator[Run]:
    """The export to a new lake, on Spark in this machine; its session is up."""
    with session("benchmark", MASTER):
        yield lambda path: print(export(source, path, ExportOptions(master=MASTER)).warning, end="", file=sys.stderr)


CONTESTANTS = {"export": spark, "adbc": adbc, "copy": copy}


def main() -> None:
    with CONTESTANTS[sys.argv[1]](Source.from_environment()) as run:
        print("ready", flush=True)
        for line in sys.stdin:
            began = time.perf_counter()
            run(Path(line.strip()))
            print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
