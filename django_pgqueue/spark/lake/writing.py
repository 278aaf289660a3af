"""Writes a lake: staging, commits, and the repair after a killed run."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.commit import Commit, LakeFile, StagedFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.folder import LakeFolder

# Tables whose rows the state counts by day, so that retention knows which rows the lake has.
COUNTED = ("archive", "dead_letter")
MOVING_TIMEOUT_SECONDS = 30  # a reader waits so long for a run that is moving its files


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
    ) -> Commit:
        """Add files, remove the files of the partitions ``replace``, and change these keys of the state, atomically.

        Raises PipelineError when another run committed meanwhile, or a file is not as it was staged.
        """
        with errors_in_one_line():
            return self._commit(kind, list(files), list(replace), state or {})

    def _commit(
        self, kind: str, files: list[StagedFile], replace: list[tuple[str, str]], state: dict[str, Any]
    ) -> Commit:
        head = self.lake.head
        for staged in files:
            check(staged)
        for folder in {staged.path.parent for staged in files}:
            durable.sync_to_disk(folder)
        removed = [path for table, partition in replace for path in self._present(table, partition)]
        number = head.number + 1
        commit = Commit(
            number=number,
            kind=kind,
            at=datetime.now(UTC).isoformat(),
            files=tuple(self._file(staged, f"{number:08}-{n}.parquet") for n, staged in enumerate(files)),
            removed=tuple(removed),
            state=head.state | {"rows": count_rows(head.state.get("rows", {}), files, replace)} | state,
        )
        temporary = self.lake.control / f".commit-{self.run}"
        try:
            durable.create_json(self.lake.commit_path(number), commit.as_json(), temporary)
        except FileExistsError:
            raise PipelineError(f"Another run committed to {self.lake.path} meanwhile: run it again.") from None
        finish(self.lake, commit)
        return commit

    def _present(self, table: str, partition: str) -> list[str]:
        folder = self.lake.path / table / partition
        return [path.relative_to(self.lake.path).as_posix() for path in sorted(folder.glob("*.parquet"))]

    def _file(self, staged: StagedFile, name: str) -> LakeFile:
        relative = staged.path.relative_to(self.lake.path).as_posix()
        return LakeFile(
            staged.table, staged.partition, name, staged.rows, staged.bytes, relative, staged.sha256, staged.more
        )


def check(staged: StagedFile) -> None:
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


def finish(lake: LakeFolder, commit: Commit) -> None:
    """Move and remove files until the folders match a commit. Repeating it changes nothing."""
    for path in commit.removed:
        (lake.path / path).unlink(missing_ok=True)
    for file in commit.files:
        staged = lake.path / file.staged
        if staged.exists():
            durable.move(staged, lake.path / file.path)
    for folder in {
        lake.path / path for file in commit.files for path in (file.table, f"{file.table}/{file.partition}")
    }:
        durable.sync_to_disk(folder)
    if commit.files:
        durable.sync_to_disk(lake.path)


def unfinished(lake: LakeFolder, commit: Commit) -> bool:
    return any((lake.path / file.staged).exists() for file in commit.files) or any(
        (lake.path / path).exists() for path in commit.removed
    )


@contextmanager
def lake_lock(lake: LakeFolder) -> Iterator[None]:
    """Hold the lock of the lake. Raises PipelineError when another process of this machine holds it."""
    with open(lake.control / "lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise PipelineError(
                f"The lake in {lake.path} is being written by another run (pid {file.read().strip() or '?'}): "
                "wait until it is done."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def writing(lake: LakeFolder) -> Iterator[Writing]:
    with lake_lock(lake):
        right = Writing(lake)
        with errors_in_one_line():
            finish(lake, lake.head)
            for folder in lake.staging.iterdir():
                shutil.rmtree(folder, ignore_errors=True)
            right.folder.mkdir()
        try:
            yield right
        finally:
            # Committed files that could not be moved exist only in this folder, so it is kept.
            if not unfinished(lake, lake.head):
                shutil.rmtree(right.folder, ignore_errors=True)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PipelineError(f"The lake cannot be written: {error.strerror or error}: {error.filename}") from None


def settle(lake: LakeFolder) -> None:
    deadline = time.monotonic() + MOVING_TIMEOUT_SECONDS
    while unfinished(lake, lake.head):
        try:
            with lake_lock(lake):
                finish(lake, lake.head)
        except PipelineError:
            # Another run holds the lock, and is moving the files.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
