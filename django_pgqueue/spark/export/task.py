"""Run the tasks of an export: read ranges of a table in short statements, and write Parquet files by day.

Spark runs them, or this process when there is little to read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import StagedFile
from django_pgqueue.spark.lake.rows import new_file, open_writer, staged
from django_pgqueue.spark.source import Source, SourceLost, TableGone

RANGE_BYTES = 64 * 1024 * 1024  # what one statement reads, about half a second
ATTEMPTS = 4
RESTART_TIMEOUT_SECONDS = 60  # for a server that restarts
MOST_WRITERS = 32
# Up to the size of so many full ranges, this process is done before Spark would have started. The ranges of small days
# are many, and far from full.
FEW_RANGES = 6


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of an export.

    ``without``: columns that are left empty; None: as in the last export. ``rescan``: compare all days, and write those
    that differ again. ``adopt``: continue although the database, or the state of the lake, is not the expected one.
    """

    master: str | None = None
    memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] | None = None
    rescan: bool = False
    adopt: bool = False
    range_bytes: int = RANGE_BYTES


@dataclass(frozen=True, slots=True)
class ExportTask:
    """A part of one table: short statements that read from ``relation``. ``bytes``: about what they read together."""

    table: str
    relation: str
    statements: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of a task. ``gone``: the table that was dropped, or ""; the rows that were read before are in the
    files.
    """

    files: tuple[StagedFile, ...] = ()
    gone: str = ""


def perform(task: ExportTask, source: Source, folder: Path) -> ExportResult:
    """Run a task: write its rows into a staging folder.

    If the server goes away, the task waits for it, and then starts from the beginning. Raises PipelineError.
    """
    for left in reversed(range(ATTEMPTS)):
        files = Files(task.table, folder)
        try:
            for batch in source.read(task.statements, schema.arrow_schema(task.table)):
                files.write(batch)
            return ExportResult(files.close())
        except TableGone:
            return ExportResult(files.close(), task.relation)
        except SourceLost:
            if not left or not wait_for(source):
                raise
        finally:
            files.discard()
    raise AssertionError("a loop that always returns")


def wait_for(source: Source) -> bool:
    """Wait for the server, RESTART_TIMEOUT_SECONDS at most. Returns whether it came back in that time."""
    deadline = time.monotonic() + RESTART_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            source.connect().close()
        except SourceLost:
            time.sleep(1)
        else:
            return True
    return False


class Files:
    """Write Parquet files, one per day, batch by batch: only one batch is in memory."""

    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self.folder = folder
        self._open: dict[date, tuple[Path, pq.ParquetWriter]] = {}
        self._closed: list[StagedFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows to the files of their days."""
        days = batch.column(schema.DAYS[self.table]).cast(pa.date32())
        present = days.unique()
        for day in present:
            rows = batch if len(present) == 1 else batch.filter(pc.equal(days, day))
            self._writer(day.as_py()).write_batch(rows)

    def close(self) -> tuple[StagedFile, ...]:
        """Close all files and return them."""
        for day in list(self._open):
            self._close(day)
        return tuple(self._closed)

    def discard(self) -> None:
        """Forget the files that are open; the staging folder is removed at the end of the run."""
        for _, writer in self._open.values():
            with suppress(OSError):  # of a full disk, once more
                writer.close()
        self._open.clear()

    def _writer(self, day: date) -> pq.ParquetWriter:
        if day not in self._open:
            if len(self._open) >= MOST_WRITERS:
                self._close(next(iter(self._open)))
            path = new_file(self.folder, self.table, f"day={day}")
            self._open[day] = path, open_writer(path, schema.arrow_schema(self.table))
        return self._open[day][1]

    def _close(self, day: date) -> None:
        path, writer = self._open.pop(day)
        writer.close()
        self._closed.append(staged(path, self.folder))
