"""Read and write the files of the lake with pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError, refused_by_disk, unreadable
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.files import LakeFile, StagedFile, values_of
from django_pgqueue.spark.schema import TIME, arrow_schema

if TYPE_CHECKING:
    from pyarrow.compute import Expression


BATCH_ROWS = 4096
# Columns with few different values; the others would gain nothing from a dictionary.
DICTIONARY = ("queue", "channel", "handler", "outcome", "reason", "worker")

# Returns a mask of the rows of a batch that stay.
Keep = Callable[[pa.RecordBatch], pa.BooleanArray]


def read(path: Path, columns: pa.Schema, where: Expression | None = None) -> pa.Table:
    """Read the rows of a file for which ``where`` is true. A column that an older file does not have is NULL.

    Raises PipelineError when the file cannot be read.
    """
    encoded = [column.name for column in columns if pa.types.is_dictionary(column.type)]
    with damage_named(path):
        return pq.read_table(
            path, schema=columns, filters=where, partitioning=None, read_dictionary=encoded,
            page_checksum_verification=True,
        )  # fmt: skip


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Convert the error of a damaged file to PipelineError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and refused_by_disk(error):
            raise
        raise unreadable(path) from None


def open_writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    """Open a new file of the lake."""
    encoded = [name for name in DICTIONARY if name in columns.names]
    return pq.ParquetWriter(path, columns, compression="zstd", use_dictionary=encoded, write_page_checksum=True)


def new_file(folder: Path, table: str, partition: str) -> Path:
    """Return a new path for a file of a partition in the staging folder of a run.

    That folder is not made: it must not come back when a run was killed.
    """
    for name in (table, *partition.split("/")):
        folder /= name
        folder.mkdir(exist_ok=True)
    return folder / f"{uuid4().hex}.parquet"


def staged(path: Path, folder: Path) -> StagedFile:
    """Bring a new file in the staging folder of a run to disk, and describe it. Raises PipelineError when it is not
    whole.
    """
    try:
        rows = pq.read_metadata(path).num_rows
        durable.sync_to_disk(path)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{path} was not written whole ({error}): run it again.") from None
    table, *partition, _ = path.relative_to(folder).parts
    return StagedFile(table, "/".join(partition), path, rows, path.stat().st_size, durable.sha256_of(path))


def created_days(path: Path) -> set[date]:
    """Return the days on which the messages of a file were created. Raises PipelineError when it cannot be read."""
    rows = read(path, pa.schema([("created_at", TIME)]))
    return {*rows["created_at"].cast("date32").unique().to_pylist()} - {None}


def rewrite(
    root: Path, files: Sequence[LakeFile], folder: Path, keep: Keep | None = None, results: int = 1
) -> list[Path]:
    """Write the rows of files of one partition that stay into about so many files of equal size, in ``folder``.

    ``root``: the folder of the lake. A column that an older file does not have is NULL. Raises PipelineError when a
    file is not as it was committed.
    """
    there = values_of(files[0].partition)
    columns = pa.schema([column for column in arrow_schema(files[0].table) if column.name not in there])
    most = -(-sum(file.rows for file in files) // results)
    paths: list[Path] = []
    with ExitStack() as stack:
        writer, rows = None, 0
        for batch in (batch for file in files for batch in batches(root, file, columns)):
            kept = batch if keep is None else batch.filter(keep(batch))
            if kept.num_rows and (writer is None or rows >= most):
                stack.close()
                paths.append(folder / f"{uuid4().hex}.parquet")
                writer, rows = stack.enter_context(open_writer(paths[-1], columns)), 0
            if writer is not None:
                writer.write_batch(kept)
            rows += kept.num_rows
    return paths


def batches(root: Path, file: LakeFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with these columns. Raises PipelineError when it is not as it was committed."""
    path = root / file.path
    rows = 0
    with damage_named(path), pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        there = {*parquet.schema_arrow.names}
        for batch in parquet.iter_batches(BATCH_ROWS):
            values = [
                batch.column(column.name) if column.name in there else pa.nulls(batch.num_rows, column.type)
                for column in columns
            ]
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(values, schema=columns)
    if rows != file.rows:
        raise PipelineError(f"{path} does not have the rows that were committed: see with verify what is damaged.")
