"""Write a lake: one writer at a time, staging folders, and commits to the logs of the tables.

A file is staged, brought to disk, linked to its place and committed. What a killed run has linked without a commit is
still in its staging folder, too, so that the next run knows and removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.files import (
    METADATA,
    NAME,
    LakeFile,
    StagedFile,
    files_of,
    statistics,
    values_of,
)
from django_pgqueue.spark.lake.rows import created_days, new_file, staged
from django_pgqueue.spark.lake.tables import LakeTables

LOCK_SECONDS = 2  # a writer waits so long for another one
# So long the log surely names a file that was removed: one that it does not name is no remnant of an earlier version.
REMEMBERED_SECONDS = 25 * 86400


class LakeBusy(PipelineError):
    """Another run is writing the lake."""


@dataclass(slots=True)
class Writing:
    """The exclusive right of one run to write. ``folder`` is its staging folder, where Spark's tasks may write, too.

    ``tables``: the tables as they were when the run began, or after its last commit. A commit is refused when another
    machine has committed an export since.
    """

    lake: LakeTables
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    tables: dict[str, DeltaTable] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.lake.staging / self.run

    def table(self, name: str) -> DeltaTable:
        """Return a table as this run sees it."""
        if name not in self.tables:
            self.tables[name] = self.lake.delta(name)
        return self.tables[name]

    def stage(self, table: str, partition: str) -> Path:
        """Return a new path for a Parquet file of a partition such as ``day=2026-11-21``, and make its folder."""
        return new_file(self.folder, table, partition)

    def staged(self, path: Path) -> StagedFile:
        """Bring a file at a path from ``stage`` to disk, and describe it. Raises PipelineError when it is not whole."""
        return staged(path, self.folder)

    def commit(
        self,
        table: str,
        kind: str,
        files: Iterable[StagedFile] = (),
        remove: Iterable[LakeFile] = (),
        *,
        transaction: tuple[str, int] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Add and remove files of a table, in one version of it. A removed file may be missing from the disk.

        ``transaction``: the app id and its new number; of two runs that began at the same version, only one may commit
        this app id. ``state``: what later runs are to know. Raises PipelineError when another run committed meanwhile,
        or a file is not as it was staged.
        """
        files, remove = list(files), list(remove)
        # A merged file has the rows of those that it replaces, and the metrics of lost rows stay.
        changes = kind not in ("compact", "forget")
        created: set[date] = set()
        if changes and table in schema.DAYS:
            for path in (*(file.path for file in files), *(self.lake.path / file.path for file in remove)):
                with suppress(PipelineError):  # of a removed file that is lost
                    created |= created_days(path)
        noted: dict[str, Any] = {"kind": kind, "created_days": sorted(day.isoformat() for day in created)}
        if state is not None:
            noted["state"] = dict(state)
        properties = CommitProperties(
            app_transactions=[Transaction(*transaction)] if transaction else [],
            custom_metadata={METADATA: json.dumps(noted)},
        )
        with errors_in_one_line():
            actions: list[AddAction | RemoveAction] = [self._place(file, changes=changes) for file in files]
            actions += [_removal(file, changes=changes) for file in remove]
            for folder in {self.lake.path / table / file.partition for file in files}:
                for each in (folder, *folder.parents[: len(folder.relative_to(self.lake.path).parts)]):
                    durable.sync_to_disk(each)
            delta = self.table(table)
            partitioned = schema.PARTITIONED.get(table, ["day"])
            try:
                delta.create_write_transaction(
                    actions, "append", delta.schema(), partitioned, commit_properties=properties
                )
            except CommitFailedError:
                raise PipelineError(f"Another run committed to {self.lake.path} meanwhile: run it again.") from None
            self.tables[table] = self.lake.delta(table)
            # delta-rs leaves it to the system when the log is on disk.
            log = self.lake.path / table / "_delta_log"
            for path in (*log.glob(f"{self.tables[table].version():020}*"), *log.glob("_last_checkpoint"), log):
                durable.sync_to_disk(path)

    def _place(self, file: StagedFile, *, changes: bool) -> AddAction:
        """Link a staged file to its place. It has its final name in the staging folder, too."""
        size = file.path.stat().st_size if file.path.exists() else None
        if size != file.bytes:
            raise PipelineError(f"{file.path} should have {file.bytes} bytes and has {size}: run it again.")
        named = file.path.with_name(f"{time.time_ns():016x}-{file.sha256}.parquet")
        file.path.rename(named)
        placed = self.lake.path / file.table / file.partition / named.name
        placed.parent.mkdir(parents=True, exist_ok=True)
        os.link(named, placed)
        return AddAction(
            f"{file.partition}/{named.name}",
            file.bytes,
            values_of(file.partition),
            int(placed.stat().st_mtime * 1000),
            changes,
            statistics(placed, file.table),
        )


def _removal(file: LakeFile, *, changes: bool) -> RemoveAction:
    path = f"{file.partition}/{file.name}"
    return RemoveAction(path, changes, int(time.time() * 1000), file.bytes, {**values_of(file.partition)})


def vacuum(lake: LakeTables, table: str, hours: int, *, full: bool = False) -> None:
    """Delete the files that were removed from a table at least so many hours ago. Earlier versions lose them.

    ``full``: also files of versions that the log has forgotten; only the writer of the lake may do that.
    """
    delta = lake.delta(table)
    if delta.vacuum(hours, enforce_retention_duration=False, full=full):
        delta.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=full)


def unknown_files(lake: LakeTables, table: str) -> list[Path]:
    """Return the Parquet files in the folder of a table that its log does not know, not even as removed."""
    there = {path for path in (lake.path / table).rglob("*.parquet") if "_delta_log" not in path.parts}
    # Read after the files: another run may place and commit some meanwhile.
    staged = {path.name for path in lake.staging.rglob("*.parquet")}
    delta = lake.delta(table)
    known = {lake.path / file.path for file in files_of(delta, table)}
    known |= {lake.path / table / path for path in delta.vacuum(0, enforce_retention_duration=False)}
    return sorted(path for path in there - known if path.name not in staged and not _is_remnant(path))


def _is_remnant(path: Path) -> bool:
    """Return whether a file may be of a version that the log has forgotten."""
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return True
    return NAME.fullmatch(path.name) is not None and age > REMEMBERED_SECONDS


def check_log(lake: LakeTables, table: str) -> None:
    """Raise PipelineError when the folder of a table has files of versions that its log does not have (any more).

    To go on from there would write the rows of these files once more.
    """
    if lost := [path for path in unknown_files(lake, table) if NAME.fullmatch(path.name)]:
        raise PipelineError(
            f"The lake in {lake.path} has lost commits: {len(lost):,} files, such as {lost[0]}, are not in the log of "
            f"their table. Restore the folder {lake.path / table / '_delta_log'} from a backup. Without one, export to "
            "a new lake, and keep this folder: it may have rows that the database does not have any more."
        )


@contextmanager
def lake_lock(
    lake: LakeTables, name: str = "lock", held_by: str = "is being written", seconds: float = LOCK_SECONDS
) -> Iterator[None]:
    """Hold the lock of the lake, or another one of it. Raises LakeBusy when another process of this machine holds it
    for longer than so many seconds: a compaction holds it for a moment only.

    ``held_by``: what the run that has this lock does to the lake.
    """
    deadline = time.monotonic() + seconds
    with open(lake.control / name, "a+") as file:
        while not _take(file):
            if time.monotonic() > deadline:
                file.seek(0)
                raise LakeBusy(
                    f"The lake in {lake.path} {held_by} by another run (pid {file.read().strip() or '?'}): "
                    "wait until it is done."
                )
            time.sleep(0.02)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _take(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def writing(lake: LakeTables, seconds: float = LOCK_SECONDS) -> Iterator[Writing]:
    """Lock the lake for one writer, remove what a killed run left, and yield the right to write.

    Raises LakeBusy if another run has the lock for so many seconds, PipelineError if the folder cannot be written.
    """
    with lake_lock(lake, seconds=seconds):
        right = Writing(lake)
        with errors_in_one_line():
            tidy(lake)
            for table in schema.TABLES:
                _add_columns(right.table(table), table, right.tables)
            right.folder.mkdir(parents=True)
        try:
            yield right
        except OSError as error:
            raise refused_by_disk(error) or error from None
        finally:
            tidy(lake)


def tidy(lake: LakeTables) -> None:
    """Remove the staging folders of runs that ended, and what they have placed without a commit."""
    lake.staging.mkdir(exist_ok=True)
    for run in lake.staging.iterdir():
        placed = [path.relative_to(run) for path in run.rglob("*.parquet") if NAME.fullmatch(path.name)]
        for table in {path.parts[0] for path in placed}:
            known = {file.path for file in lake.files(table)}
            for path in placed:
                if path.parts[0] == table and path.as_posix() not in known:
                    with suppress(FileNotFoundError, NotADirectoryError):
                        (lake.path / path).unlink()
        shutil.rmtree(run, ignore_errors=True)


def _add_columns(delta: DeltaTable, table: str, tables: dict[str, DeltaTable]) -> None:
    """Add the columns that a table of an earlier version lacks; its files have NULL there."""
    there = {column.name for column in delta.schema().fields}
    new = [column for column in schema.arrow_schema(table) if column.name not in there]
    if new:
        delta.alter.add_columns(DeltaSchema.from_arrow(pa.schema(new)).fields)
        del tables[table]


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Convert errors of the system and of delta-rs to PipelineError, with the path."""
    try:
        yield
    except (OSError, DeltaError) as error:
        if refusal := refused_by_disk(error):
            raise refusal from None
        named = getattr(error, "filename", None)
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise PipelineError(f"The lake cannot be written: {reason}{f': {named}' if named else ''}") from None
