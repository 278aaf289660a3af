"""Merge Parquet files of a partition into fewer and larger ones, row by row as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.lake.commit import LakeFile, StagedFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.folder import LakeFolder

BATCH_ROWS = 4096
GROUP_BYTES = 64 * 1024 * 1024  # of a row group in memory


def merge_files(
    lake: LakeFolder, files: Sequence[LakeFile], folder: Path, target_bytes: int, dictionary: Sequence[str]
) -> list[StagedFile]:
    """Write the rows of these files of one partition into files of about ``target_bytes`` each, in ``folder``.

    ``dictionary``: columns with few different values. Raises PipelineError when a file is not as it was committed.
    """
    paths = [lake.path / file.path for file in files]
    folder_of = f"{files[0].table}/{files[0].partition}"
    try:
        for path, file in zip(paths, files, strict=True):
            if file.sha256 and sha256_of(path) != file.sha256:
                raise PipelineError(f"{path} is not as it was committed: see with verify what else is.")
        schema = pa.unify_schemas([pq.read_schema(path) for path in paths])
        with Merger(folder, schema, target_bytes, [name for name in dictionary if name in schema.names]) as writer:
            for path in paths:
                for batch in _batches(path, schema):
                    writer.write(batch)
            written = writer.close()
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and (refusal := refused_by_disk(error)):
            raise refusal from None
        reason = " ".join(str(error).split())
        raise PipelineError(f"{folder_of} cannot be compacted ({reason}): see with verify what is damaged.") from None
    rows = sum(count for _, count in written)
    if rows != sum(file.rows for file in files):
        raise PipelineError(f"{folder_of} does not have the rows that were committed: see with verify what is damaged.")
    created = sorted({day for file in files for day in file.more.get("created_days", [])})
    more = {"created_days": created} if created else {}
    return [
        StagedFile(files[0].table, files[0].partition, path, count, path.stat().st_size, sha256_of(path), more)
        for path, count in written
    ]


def _batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with all columns of the schema; NULL in those that an older file does not have."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            there = set(batch.schema.names)
            columns = [
                batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


class Merger:
    """Write batches into files, and begin a new one when a file has reached its size."""

    def __init__(self, folder: Path, schema: pa.Schema, target_bytes: int, dictionary: Sequence[str]) -> None:
        self.folder = folder
        self.schema = schema
        self.target_bytes = target_bytes
        self.options: dict[str, Any] = {
            "compression": "zstd", "use_dictionary": list(dictionary), "write_page_checksum": True,
        }  # fmt: skip
        self._waiting: list[pa.RecordBatch] = []
        self._sink: IO[bytes] | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._written: list[tuple[Path, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file that an error has left open; its folder is removed with it."""
        if self._sink is not None and self._writer is not None:
            for open_one in (self._writer, self._sink):
                with suppress(OSError, pa.ArrowException):
                    open_one.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep rows in memory, and write them as one row group when there are enough."""
        self._waiting.append(batch)
        if sum(waiting.nbytes for waiting in self._waiting) >= min(GROUP_BYTES, self.target_bytes):
            self._write_group()

    def close(self) -> list[tuple[Path, int]]:
        """Return the files, each with its number of rows."""
        self._write_group()
        self._close_file()
        return self._written

    def _write_group(self) -> None:
        if not self._waiting:
            return
        if self._sink is None or self._writer is None:
            self._sink = open(self.folder / f"{uuid4().hex}.parquet", "xb")  # noqa: SIM115
            self._writer = pq.ParquetWriter(self._sink, self.schema, **self.options)
        table = pa.Table.from_batches(self._waiting, self.schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._rows += table.num_rows
        self._waiting.clear()
        if self._sink.tell() >= self.target_bytes:
            self._close_file()

    def _close_file(self) -> None:
        if self._sink is None or self._writer is None:
            return
        self._writer.close()
        self._sink.flush()
        os.fsync(self._sink.fileno())
        self._sink.close()
        self._written.append((Path(self._sink.name), self._rows))
        self._sink = self._writer = None
        self._rows = 0
