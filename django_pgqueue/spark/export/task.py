"""Run the tasks of an export: read ranges of a table in short statements, and write Parquet files by day.

Spark runs them, or this process when there is little to read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.lake import StagedFile, durable
from django_pgqueue.spark.lake.rewriting import open_writer
from django_pgqueue.spark.session import session
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
    """The result of a task.

    ``failure``: why the task gave up, or "". ``gone``: the table that was dropped, or ""; the rows that were read
    before are in the files.
    """

    files: tuple[StagedFile, ...] = ()
    failure: str = ""
    gone: str = ""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def perform(task: ExportTask, source: Source, folder: str) -> ExportResult:
    """Run a task: write its rows into a staging folder.

    If the server goes away, the task waits for it, and then starts from the beginning. Known errors are returned as
    ``failure``: Spark would turn an exception into pages of text.
    """
    for attempt in range(1, ATTEMPTS + 1):
        files = Files(task.table, Path(folder))
        try:
            try:
                for batch in source.read(task.statements, schema.arrow_schema(task.table)):
                    files.write(batch)
            except TableGone:
                return ExportResult(files.close(), gone=task.relation)
            return ExportResult(files.close())
        except SourceLost as error:
            files.discard()
            if attempt == ATTEMPTS or not wait_for(source):
                return ExportResult(failure=str(error))
        except PipelineError as error:
            files.discard()
            return ExportResult(failure=str(error))
        except OSError as error:
            files.discard()
            if refusal := refused_by_disk(error):
                return ExportResult(failure=str(refusal))
            raise
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


@dataclass(slots=True)
class OpenFile:
    path: Path
    writer: Any
    created_days: set[date] = field(default_factory=set)
    rows: int = 0


class Files:
    """Write Parquet files, one per day, batch by batch: only one batch is in memory."""

    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self.folder = folder
        self._open: dict[date, OpenFile] = {}
        self._closed: list[StagedFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows to the files of their days."""
        days = batch.column(schema.DAYS[self.table]).cast(pa.date32())
        present = pc.unique(days)
        for day in present:
            rows = batch if len(present) == 1 else batch.filter(pc.equal(days, day))
            self._write(day.as_py(), rows)

    def close(self) -> tuple[StagedFile, ...]:
        """Close all files and return them."""
        for day in list(self._open):
            self._close(day)
        return tuple(self._closed)

    def discard(self) -> None:
        """Forget the files; the staging folder is removed at the end of the run."""
        for file in self._open.values():
            with suppress(OSError):  # of a full disk, once more
                file.writer.close()
        self._open.clear()

    def _write(self, day: date, batch: pa.RecordBatch) -> None:
        file = self._open.get(day)
        if file is None:
            if len(self._open) >= MOST_WRITERS:
                self._close(next(iter(self._open)))
            file = self._open[day] = self._create(day)
        file.writer.write_batch(batch)
        file.rows += batch.num_rows
        file.created_days.update(pc.unique(batch.column("created_at").cast(pa.date32())).to_pylist())

    def _create(self, day: date) -> OpenFile:
        # Parents are not made: the staging folder of a run that was killed must not come back.
        for folder in (self.folder / self.table, self.folder / self.table / f"day={day}"):
            folder.mkdir(exist_ok=True)
        path = folder / f"{uuid4().hex}.parquet"
        return OpenFile(path, open_writer(path, schema.arrow_schema(self.table)))

    def _close(self, day: date) -> None:
        file = self._open.pop(day)
        file.writer.close()
        durable.sync_to_disk(file.path)
        size = file.path.stat().st_size
        created = tuple(sorted(file.created_days))
        digest = durable.sha256_of(file.path)
        self._closed.append(StagedFile(self.table, f"day={day}", file.path, file.rows, size, digest, created))


def run_tasks(tasks: list[ExportTask], source: Source, folder: str, options: ExportOptions) -> list[ExportResult]:
    """Run all tasks and return their results. If a master is given, Spark runs even a single task."""
    if not tasks:
        return []

    # The closure carries the source, because `parallelize` writes its arguments to a file.
    def perform_all(part: Iterable[ExportTask]) -> Iterator[ExportResult]:
        return (perform(task, source, folder) for task in part)

    if options.master is None and sum(task.bytes for task in tasks) <= FEW_RANGES * options.range_bytes:
        return list(perform_all(tasks))
    with session("pgqueue export", options.master, options.memory, options.conf) as spark:
        return spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(perform_all).collect()
