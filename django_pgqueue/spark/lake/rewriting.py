"""Write a file of the lake anew without some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import refused_by_disk, unreadable
from django_pgqueue.spark.lake.commit import StagedFile
from django_pgqueue.spark.lake.writing import COUNTED, Writing

BATCH_ROWS = 4096

# Returns a mask of the rows of a batch that stay.
Keep = Callable[[pa.RecordBatch], pa.BooleanArray]


def rewrite(
    writing: Writing, path: Path, table: str, partition: str, dictionary: Sequence[str], keep: Keep
) -> StagedFile | None:
    """Stage a file with the rows of another one that stay. Returns None if no row is left.

    ``dictionary``: columns with few different values. Raises PipelineError if the file cannot be read.
    """
    staged, rows, created = writing.stage(table, partition), 0, set()
    with damage_named(path), pq.ParquetFile(path) as file:
        options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
        options["use_dictionary"] = [name for name in dictionary if name in file.schema_arrow.names]
        with pq.ParquetWriter(staged, file.schema_arrow, **options) as writer:
            for batch in _remaining(file, keep):
                writer.write_batch(batch)
                rows += batch.num_rows
                if table in COUNTED:
                    created.update(pc.unique(batch.column("created_at").cast("date32")).to_pylist())
    if not rows:
        staged.unlink()
        return None
    more = {"created_days": sorted(day.isoformat() for day in created)} if created else {}
    return writing.staged(staged, **more)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Convert the error of a damaged file to PipelineError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and refused_by_disk(error):
            raise
        raise unreadable(str(path)) from None


def _remaining(file: pq.ParquetFile, keep: Keep) -> Iterator[pa.RecordBatch]:
    for batch in file.iter_batches(batch_size=BATCH_ROWS):
        kept = batch.filter(keep(batch))
        if kept.num_rows:
            yield kept
