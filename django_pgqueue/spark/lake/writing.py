"""Write a lake: staging, commits, and the repair after a killed run."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.lake import durable, placing
from django_pgqueue.spark.lake.commit import Commit, LakeFile, StagedFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.folder import LakeFolder
from django_pgqueue.spark.lake.history import check_commits

# Tables whose rows the state counts by day, so that retention knows which rows the lake has.
COUNTED = ("archive", "dead_letter")
# The folder of partitions that are exchanged, in the staging folder of a run.
GATHERED = "gathered"
LOCK_SECONDS = 2  # a writer waits so long for another one
MOVING_TIMEOUT_SECONDS = 30  # a reader waits so long for a run that is moving its files

README = "README.txt"
READ_ONE_TABLE = """\
This folder is a lake of pgqueue-django. It holds several tables, and each is a folder:

    archive  dead_letter  channel  metrics  forecast

Open one of them, for example pandas.read_parquet("archive"). This file makes readers refuse the folder of all tables,
whose rows they would mix. _pgqueue holds the commits of the lake; only pgqueue lake writes here.
"""


class LakeBusy(PipelineError):
    """Another run is writing the lake."""


@dataclass(slots=True)
class Writing:
    """The exclusive right of one run to write. ``folder`` is its staging folder, where Spark's tasks may write, too."""

    lake: LakeFolder
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def folder(self) -> Path:
        return self.lake.staging / self.run

    def stage(self, table: str, partition: str) -> Path:
        """Return a new path for a Parquet file of a partition such as ``day=2026-11-21``, and make its folder."""
        folder = self.folder / table / partition
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{uuid.uuid4().hex}.parquet"

    def staged(self, path: Path, **more: Any) -> StagedFile:
        """Sync a file at a path from ``stage`` to disk, and describe it. Raises PipelineError when it is not whole."""
        try:
            rows = pq.read_metadata(path).num_rows
            durable.sync_to_disk(path)
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{path} was not written whole ({error}): run it again.") from None
        table, *partition, _ = path.relative_to(self.folder).parts
        return StagedFile(table, "/".join(partition), path, rows, path.stat().st_size, sha256_of(path), more)

    def collect(self, table: str) -> list[StagedFile]:
        """Return the files that Spark wrote to ``folder / table``, partitioned by day, or by grain and day."""
        return [self.staged(path) for path in sorted((self.folder / table).rglob("day=*/*.parquet"))]

    def commit(
        self,
        kind: str,
        files: Iterable[StagedFile] = (),
        replace: Iterable[tuple[str, str]] = (),
        state: dict[str, Any] | None = None,
        keep: Collection[str] = (),
        lost: Collection[LakeFile] = (),
    ) -> Commit:
        """Add files, remove the files of the partitions ``replace``, and change these keys of the state, atomically.

        ``keep``: the paths of files in these partitions that stay. ``lost``: missing files of earlier commits, to be
        forgotten.
        Raises PipelineError when another run committed meanwhile, or a file is not as it was staged.
        """
        with errors_in_one_line():
            return self._commit(kind, list(files), list(replace), state or {}, keep, lost)

    def _commit(
        self,
        kind: str,
        files: list[StagedFile],
        replace: list[tuple[str, str]],
        state: dict[str, Any],
        keep: Collection[str],
        lost: Collection[LakeFile],
    ) -> Commit:
        head = self.lake.head
        for staged in files:
            check_staged(staged)
        for parent in {staged.path.parent for staged in files}:
            durable.sync_to_disk(parent)
        number = head.number + 1
        new = [self._file(staged, f"{number:08}-{n}.parquet") for n, staged in enumerate(files)]
        removed = [file.path for file in lost]
        exchanged = []
        for folder in (f"{table}/{partition}" for table, partition in replace):
            old = [name for name in self._present(folder) if f"{folder}/{name}" not in keep]
            removed += [f"{folder}/{name}" for name in old]
            its = [n for n, file in enumerate(new) if f"{file.table}/{file.partition}" == folder]
            if old and its:
                exchanged.append(folder)
                for n, file in zip(its, self._gather(number, folder, [new[n] for n in its], keep), strict=True):
                    new[n] = file
        commit = Commit(
            number=number,
            kind=kind,
            at=datetime.now(UTC).isoformat(),
            files=tuple(new),
            removed=tuple(removed),
            exchanged=tuple(exchanged),
            state=head.state | {"rows": count_rows(head.state.get("rows", {}), files, replace)} | state,
        )
        self._decide(commit)
        placing.place(self.lake, commit)
        return commit

    def _decide(self, commit: Commit) -> None:
        """Write the commit beside the others, to be renamed when its files are in their places. It is decided then."""
        prepared = self.lake.prepared_path(commit.number)
        taken = PipelineError(f"Another run committed to {self.lake.path} meanwhile: run it again.")
        try:
            durable.create_json(prepared, commit.as_json(), self.lake.control / f".commit-{self.run}")
        except FileExistsError:
            raise taken from None
        if self.lake.is_confirmed(commit.number):
            prepared.unlink()
            raise taken

    def _gather(self, number: int, folder: str, files: list[LakeFile], keep: Collection[str]) -> list[LakeFile]:
        """Make the folder that a partition's is exchanged for, of staged files and of those that stay there."""
        gathered = self.folder / GATHERED / str(number) / folder
        kept = [self.lake.path / folder / name for name in self._present(folder) if f"{folder}/{name}" in keep]
        placing.gather(gathered, [(self.lake.path / file.staged, file.name) for file in files], kept)
        relative = gathered.relative_to(self.lake.path).as_posix()
        return [dataclasses.replace(file, staged=f"{relative}/{file.name}") for file in files]

    def _present(self, folder: str) -> list[str]:
        """Return the names of the files in the folder of a partition."""
        return [path.name for path in sorted((self.lake.path / folder).glob("*.parquet"))]

    def _file(self, staged: StagedFile, name: str) -> LakeFile:
        return LakeFile(
            staged.table,
            staged.partition,
            name,
            staged.rows,
            staged.bytes,
            staged.path.relative_to(self.lake.path).as_posix(),
            staged.sha256,
            staged.more,
        )


def check_staged(staged: StagedFile) -> None:
    """Raise PipelineError if a staged file does not have the size that it was written with."""
    size = staged.path.stat().st_size if staged.path.exists() else None
    if size != staged.bytes:
        raise PipelineError(f"{staged.path} should have {staged.bytes} bytes and has {size}: run it again.")


def count_rows(
    rows: dict[str, dict[str, int]], files: Iterable[StagedFile], replaced: Iterable[tuple[str, str]]
) -> dict[str, dict[str, int]]:
    """Return the rows by table and day, with those of new files, without those of replaced partitions."""
    counted = {table: dict(days) for table, days in rows.items()}
    for table, partition in replaced:
        counted.get(table, {}).pop(partition.removeprefix("day="), None)
    for file in files:
        if file.table in COUNTED:
            days = counted.setdefault(file.table, {})
            day = file.partition.removeprefix("day=")
            days[day] = days.get(day, 0) + file.rows
    return counted


@contextmanager
def lake_lock(lake: LakeFolder, name: str = "lock", held_by: str = "is being written") -> Iterator[None]:
    """Hold the lock of the lake, or another one of it. Raises LakeBusy when another process of this machine holds it
    for longer than LOCK_SECONDS: a compaction holds it for a moment only.

    ``held_by``: what the run that has this lock does to the lake.
    """
    deadline = time.monotonic() + LOCK_SECONDS
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
def writing(lake: LakeFolder) -> Iterator[Writing]:
    """Lock the lake for one writer, finish what a killed run left, and yield the right to write.

    The staging folder is removed at the end, unless it still has files of a commit. Raises PipelineError if another run
    has the lock, if commits are lost, or if the folder cannot be written.
    """
    with lake_lock(lake):
        right = Writing(lake)
        with errors_in_one_line():
            check_commits(lake)
            tidy(lake)
            lake.staging.mkdir(exist_ok=True)  # an object store keeps no empty folder
            for folder in lake.staging.iterdir():
                shutil.rmtree(folder, ignore_errors=True)
            right.folder.mkdir()
        try:
            with refusals_of_the_disk():
                yield right
        finally:
            # Committed files that could not be moved exist only in this folder, so it is kept.
            if not placing.unplaced(lake, lake.head):
                shutil.rmtree(right.folder, ignore_errors=True)


def tidy(lake: LakeFolder) -> None:
    """Complete the newest commit, whose run may have been killed, and write the README of the lake if it is missing."""
    placing.place(lake, lake.head)
    for number in lake.commit_numbers():
        lake.prepared_path(number).unlink(missing_ok=True)
    readme = lake.path / README
    if not readme.exists():
        durable.replace_text(readme, READ_ONE_TABLE)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Convert an OSError to PipelineError, with the path."""
    try:
        with refusals_of_the_disk():
            yield
    except OSError as error:
        raise PipelineError(f"The lake cannot be written: {error.strerror or error}: {error.filename}") from None


@contextmanager
def refusals_of_the_disk() -> Iterator[None]:
    """Convert the errors of a full or protected disk to PipelineError; others stay as they are."""
    try:
        yield
    except OSError as error:
        raise refused_by_disk(error) or error from None


def settle(lake: LakeFolder) -> None:
    """Wait until the files of the newest commit are where they belong, or finish the work of a killed run.

    Raises PipelineError if another run has the lock for MOVING_TIMEOUT_SECONDS.
    """
    deadline = time.monotonic() + MOVING_TIMEOUT_SECONDS
    while placing.unplaced(lake, lake.head):
        try:
            with lake_lock(lake):
                placing.place(lake, lake.head)
        except PipelineError:
            # Another run holds the lock, and is moving the files.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
