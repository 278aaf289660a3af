"""Write files of the lake anew: into fewer and larger ones, or without some of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError, refused_by_disk, unreadable
from django_pgqueue.spark.lake.files import LakeFile, values_of
from django_pgqueue.spark.lake.tables import COUNTED, LakeTables
from django_pgqueue.spark.schema import arrow_schema

BATCH_ROWS = 4096
# Columns with few different values; the others would gain nothing from a dictionary.
DICTIONARY = ("queue", "channel", "handler", "outcome", "reason", "worker")

# Returns a mask of the rows of a batch that stay.
Keep = Callable[[pa.RecordBatch], pa.BooleanArray]


@dataclass(slots=True)
class Rewritten:
    """New files, and the days on which the messages of the old ones were created. ``dropped``: rows that went."""

    paths: list[Path] = field(default_factory=list)
    created_days: set[date] = field(default_factory=set)
    dropped: int = 0


def open_writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    """Open a new file of the lake."""
    encoded = [name for name in DICTIONARY if name in columns.names]
    return pq.ParquetWriter(path, columns, compression="zstd", use_dictionary=encoded, write_page_checksum=True)


def rewrite(
    lake: LakeTables, files: Sequence[LakeFile], folder: Path, keep: Keep | None = None, results: int = 1
) -> Rewritten:
    """Write the rows of files of one partition that stay into about so many files of equal size, in ``folder``.

    A column that an older file does not have is NULL. Raises PipelineError when a file is not as it was committed.
    """
    table = files[0].table
    columns = pa.schema([column for column in arrow_schema(table) if column.name not in values_of(files[0].partition)])
    most = -(-sum(file.rows for file in files) // results)
    found, writer, rows = Rewritten(), None, 0
    try:
        for batch in (batch for file in files for batch in batches(lake, file, columns)):
            if table in COUNTED:
                found.created_days.update(pc.unique(batch.column("created_at").cast("date32")).to_pylist())
            kept = batch if keep is None else batch.filter(keep(batch))
            found.dropped += batch.num_rows - kept.num_rows
            if not kept.num_rows:
                continue
            if writer is None or rows >= most:
                if writer is not None:
                    writer.close()
                found.paths.append(folder / f"{uuid4().hex}.parquet")
                writer, rows = open_writer(found.paths[-1], columns), 0
            writer.write_batch(kept)
            rows += kept.num_rows
    finally:
        if writer is not None:
            writer.close()
    return found


def batches(lake: LakeTables, file: LakeFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with these columns. Raises PipelineError when it is not as it was committed."""
    path = lake.path / file.path
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


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Convert the error of a damaged file to PipelineError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and refused_by_disk(error):
            raise
        raise unreadable(str(path)) from None
