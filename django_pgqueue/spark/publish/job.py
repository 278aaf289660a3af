"""Mirror a lake: upload new files, then the versions of each table that list them, then delete what the lake has not.

A version in the target appears when its data is there, so a reader of a table sees one version or the next one. A run
that is killed leaves files that the next run counts or deletes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow.parquet as pq

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.tables import CONTROL
from django_pgqueue.spark.lake.writing import lake_lock
from django_pgqueue.spark.publish.target import UPLOADING, Target
from django_pgqueue.spark.schema import TABLES

LOCK = "publishing.lock"
REQUESTS_AT_A_TIME = 8
# The description of the lake says whose copy the target is.
MARK = f"{CONTROL}/lake.json"
LOG = "_delta_log"

Item = TypeVar("Item")
Result = TypeVar("Result")


def publish(lake: Lake, target: Target, *, check: str, dry_run: bool) -> str:
    """Make the target a copy of the newest versions. Returns a text for the user.

    ``check``: ``size`` compares sizes, ``new`` also the SHA-256 of what it uploads, ``all`` that of all files.
    Raises PipelineError if the target holds something else or refuses, LakeBusy if another run publishes.
    """
    if dry_run:
        return Publication(lake, target, check).plan()
    with lake_lock(lake, LOCK, "is being published"):
        return Publication(lake, target, check).run()


class Publication:
    """One run: what the lake has and what the target has, at its beginning."""

    def __init__(self, lake: Lake, target: Target, check: str) -> None:
        self.lake, self.target, self.check = lake, target, check
        self.present = target.list()
        self.new = check_mark(lake, target, self.present)
        self.versions = lake.versions
        for table in TABLES:
            check_line(lake, target, table, self.present)
        files = [file for table, version in self.versions.items() for file in lake.files(table, version=version)]
        self.files = {file.path: file for file in files}
        there = [file for file in files if self.present.get(file.path) == file.bytes]
        if check == "all":
            right = in_parallel(lambda file: (file, target.digest(file.path) == digest_of(lake, file)), there)
            there = [file for file, is_right in right if is_right]
        self.uploads = sorted({*files} - {*there}, key=lambda file: file.path)
        # Files of earlier versions stay as long as the lake has them.
        self.gone = sorted(
            path
            for path in self.present
            if path.endswith(".parquet") and LOG not in path and path.partition("/")[0] in TABLES
            if path not in self.files and not (lake.path / path).exists()
        )

    @property
    def counts(self) -> str:
        size = sum(file.bytes for file in self.uploads)
        return f"{len(self.uploads):,} files, {size:,} bytes"

    def plan(self) -> str:
        """Return what a run would do."""
        return f"Would upload {self.counts}, delete {len(self.gone):,}."

    def run(self) -> str:
        """Do it, in the order that readers need. Returns a text for the user."""
        if self.new:
            self.target.write(MARK, (self.lake.control / "lake.json").read_text(encoding="utf-8"))
            check_mark(self.lake, self.target, {MARK: 1})
        self._upload_data()
        # Another lake may have claimed the same empty prefix at the same moment.
        check_mark(self.lake, self.target, {MARK: 1})
        for table, version in self.versions.items():
            self._upload_log(table, version)
        left = [path for path in self.present if path.startswith(f"{UPLOADING}/")]
        in_parallel(self.target.delete, [*self.gone, *left])
        return (
            f"{self.target.url} has the lake: uploaded {self.counts}; "
            f"{len(self.files) - len(self.uploads):,} were there; deleted {len(self.gone):,}."
        )

    def _upload_data(self) -> None:
        def upload(file: LakeFile) -> None:
            local = self.lake.path / file.path
            try:
                digest = sha256_of(local)
                if digest == (file.sha256 or digest):
                    self.target.upload(local, file.path)
                else:
                    raise PipelineError(f"{file.path} is not as it was committed: see with verify what else is.")
            except FileNotFoundError:
                raise PipelineError(
                    f"{local} is missing: see with verify what else is, or run it again if the lake was erased or "
                    "compacted at this moment."
                ) from None
            if self.check != "size" and self.target.digest(file.path) != digest:
                self.target.delete(file.path)
                raise PipelineError(
                    f"{self.target.url}/{file.path} is not what was uploaded (SHA-256 differs): run it again."
                )

        in_parallel(upload, self.uploads)

    def _upload_log(self, table: str, version: int) -> None:
        """Publish a version of a table, as a checkpoint: versions between the published ones are not in the copy.

        The log of the version before stays for readers that have begun with it.
        """
        folder, name = f"{table}/{LOG}", f"{version:020}"
        if f"{folder}/{name}.json" in self.present:
            return
        checkpoint = self.lake.path / folder / f"{name}.checkpoint.parquet"
        if not checkpoint.exists():
            self.lake.delta(table, version).create_checkpoint()
        self.target.upload(checkpoint, f"{folder}/{checkpoint.name}")
        self.target.upload(self.lake.path / folder / f"{name}.json", f"{folder}/{name}.json")
        size = pq.read_metadata(checkpoint).num_rows
        self.target.write(f"{folder}/_last_checkpoint", json.dumps({"version": version, "size": size}))
        there = sorted(path for path in self.present if path.startswith(f"{folder}/0"))
        last = there[-1].partition(".")[0] if there else ""
        in_parallel(self.target.delete, [path for path in there if path.partition(".")[0] < last])


def check_mark(lake: Lake, target: Target, present: Mapping[str, int]) -> bool:
    """Return whether the target is empty. Raises PipelineError if it holds another lake or anything else."""
    if MARK not in present:
        if present:
            raise PipelineError(f"{target.url} holds other files, and no published lake: give a prefix that is empty.")
        return True
    try:
        owner: Any = json.loads(target.read(MARK) or "{}")["name"]
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"{target.url}/{MARK} is not the mark of a published lake: look at --to and --endpoint."
        ) from None
    if owner != lake.description.name:
        raise PipelineError(
            f"{target.url} belongs to the lake {owner}, and this one is {lake.description.name}: "
            "give each lake a prefix of its own."
        )
    return False


def check_line(lake: Lake, target: Target, table: str, present: Mapping[str, int]) -> None:
    """Raise PipelineError if the target has a version of a table that is not one of this lake: the lake was restored
    from a backup.
    """
    folder = f"{table}/{LOG}/"
    newest = max((path for path in present if path.startswith(folder) and path.endswith(".json")), default=None)
    if newest is None:
        return
    number, local = int(newest.removeprefix(folder)[:20]), lake.path / newest
    same = not local.exists() or local.read_text(encoding="utf-8") == target.read(newest)
    if number > lake.delta(table).version() or not same:
        raise PipelineError(
            f"{target.url} has version {number:,} of {table}, which the lake in {lake.path} has not: it was restored "
            "from a backup, or is an old copy. Publish to an empty prefix."
        )


def digest_of(lake: Lake, file: LakeFile) -> str:
    """Return the SHA-256 that a file was committed with; that of now if another program wrote it."""
    try:
        return file.sha256 or sha256_of(lake.path / file.path)
    except OSError:
        return ""


def in_parallel(task: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Run a task for each item, some at a time, and return the results. After an error no further task begins.

    A signal is raised here and not in a task, so it cannot end an upload in the middle.
    """
    with ThreadPoolExecutor(REQUESTS_AT_A_TIME, thread_name_prefix="publish") as pool:
        try:
            return list(pool.map(task, items))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
