"""Mirror a lake: upload new files, put those of replaced days in their places, commit, delete what the lake has not.

The commit in the target is one file that lists all data files, so that a reader of commits sees one commit of the lake
or the next one. A reader of folders sees the rows of a replaced day twice between the copies and the deletions, which
are requests without an upload. A run that is killed leaves files that the next run counts or deletes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TypeVar

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Commit, LakeFile, ParquetLake
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.folder import CONTROL
from django_pgqueue.spark.lake.history import committed_files
from django_pgqueue.spark.lake.writing import READ_ONE_TABLE, README, lake_lock
from django_pgqueue.spark.progress import Progress
from django_pgqueue.spark.publish import plan
from django_pgqueue.spark.publish.mark import COMMITS, PublishedLake, check_mark, commit_path, update
from django_pgqueue.spark.publish.target import UPLOADING, Target, uploading
from django_pgqueue.spark.scratch import scratch

FOLDER = "publishing"
LOCK = "publishing.lock"
REQUESTS_AT_A_TIME = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """``since``: of older days, the target keeps what its commit lists. ``check``: see `plan.candidates`."""

    since: date = date.min
    check: str = "new"


def publish(lake: ParquetLake, target: Target, *, since: date, check: str, dry_run: bool) -> str:
    """Make the target a copy of the newest commit. Returns a text for the user.

    Raises PipelineError if the target holds something else or refuses, LakeBusy if another run publishes.
    """
    options = PublishOptions(since, check)
    lake.settle()
    if dry_run:
        present = target.list()
        mirror = PublishedLake.look_at(target, lake, present)
        _, todo = plan_run(lake, target, mirror, present, options)
        size, days = plan.total_bytes(file for file, _ in todo.to_upload), len(todo.replaced_folders)
        return (
            f"Would upload {len(todo.to_upload):,} files, {size:,} bytes, delete {len(todo.gone):,}, "
            f"and replace {days:,} days."
        )
    with lake_lock(lake, LOCK, "is being published"):
        parent = lake.control / FOLDER
        parent.mkdir(exist_ok=True)
        present = target.list()
        mirror = PublishedLake.look_at(target, lake, present)
        mirror.claim(target, lake)
        with scratch(parent) as folder:
            links = None
            while links is None:
                head, todo = plan_run(lake, target, mirror, present, options)
                links = link_files(lake, todo, folder, head.number)
            return run(lake, target, mirror, head, todo, links, present, check)


def plan_run(
    lake: ParquetLake, target: Target, mirror: PublishedLake, present: Mapping[str, int], options: PublishOptions
) -> tuple[Commit, plan.Publication]:
    """Return the newest commit, and what to do to make the target a copy of it. Reads files of the target."""
    head = lake.head
    committed = committed_files(lake, head.number)
    wanted = {path: replace(file, staged="") for path, file in committed.items() if file.day >= options.since}
    # The lake may have removed older days, or merged their files before.
    wanted |= {
        path: file
        for path, file in mirror.files.items()
        if file.day < options.since and present.get(path) == file.bytes
    }
    good, unknown = plan.candidates(wanted, present, mirror.files, options.check)
    digests = in_parallel(lambda path: (path, target.digest(path)), unknown)
    good |= {path for path, digest in digests if digest == digest_of(lake, unknown[path])}
    return head, plan.compare(wanted, present, good)


def digest_of(lake: ParquetLake, file: LakeFile) -> str:
    """Return the SHA-256 that a file was committed with; of early versions, which did not record it, that of now."""
    try:
        return file.sha256 or sha256_of(lake.path / file.path)
    except OSError:
        return ""


def link_files(lake: ParquetLake, todo: plan.Publication, folder: Path, number: int) -> dict[str, Path] | None:
    """Make hard links to the files to upload, so that a compaction may remove them from the lake meanwhile.

    Returns the links by path, or None if the lake has a newer commit by now, which has replaced one of the files.
    Raises PipelineError if a file is missing.
    """
    links: dict[str, Path] = {}
    for index, (file, _) in enumerate(todo.to_upload):
        links[file.path] = folder / f"{number}-{index}"
        try:
            links[file.path].unlink(missing_ok=True)
            os.link(lake.path / file.path, links[file.path])
        except FileNotFoundError:
            lake.settle()
            if lake.head.number != number:
                return None
            raise PipelineError(
                f"{lake.path / file.path} is missing: see with verify what else is; if old days were removed, "
                "give --since."
            ) from None
        except OSError as error:
            raise PipelineError(f"{lake.path / file.path} cannot be linked ({error.strerror}).") from None
    return links


def run(
    lake: ParquetLake,
    target: Target,
    mirror: PublishedLake,
    head: Commit,
    todo: plan.Publication,
    links: Mapping[str, Path],
    present: Mapping[str, int],
    check: str,
) -> str:
    """Do what is planned, in the order that readers need. Returns a text for the user."""
    upload_all(target, todo, links, check)
    files = sorted((*todo.there, *todo.uploads, *todo.replacements), key=lambda file: file.path)
    update(target, f"{CONTROL}/lake.json", (lake.control / "lake.json").read_text(encoding="utf-8"), present)
    update(target, README, READ_ONE_TABLE, present)
    # Another lake may have claimed the same empty prefix at the same moment.
    check_mark(target, lake)
    began = time.monotonic()
    in_parallel(lambda file: target.put_in_place(file.path, file.bytes), todo.replacements)
    if head.number:
        commit = replace(head, files=tuple(files), removed=(), exchanged=(), merged=True)
        mirror.commit(target, commit)
    in_parallel(target.delete, todo.gone)
    twice_seconds = time.monotonic() - began
    left = [path for path in present if path.startswith(f"{UPLOADING}/")]
    left += [uploading(file.path) for file in todo.replacements]
    old = [path for path in present if path.startswith(f"{COMMITS}/") and path < commit_path(head.number)]
    in_parallel(target.delete, {*left, *old})
    return report(target, head, todo, twice_seconds)


def report(target: Target, head: Commit, todo: plan.Publication, twice_seconds: float) -> str:
    """Return what was done."""
    uploaded = [file for file, _ in todo.to_upload]
    text = (
        f"{target.url} has commit {head.number:,}: uploaded {len(uploaded):,} files, "
        f"{plan.total_bytes(uploaded):,} bytes; {len(todo.there):,} were there; deleted {len(todo.gone):,}."
    )
    if days := len(todo.replaced_folders):
        text += f" The rows of {days:,} replaced days were there twice for at most {twice_seconds:.1f} s."
    return text


def upload_all(target: Target, todo: plan.Publication, links: Mapping[str, Path], check: str) -> None:
    """Upload files, and read each to compare its content unless ``check`` is ``size``. Raises PipelineError."""
    progress = Progress(len(todo.to_upload))

    def upload(item: tuple[LakeFile, str]) -> int:
        file, path = item
        local = links[file.path]
        digest = sha256_of(local)
        if file.sha256 and digest != file.sha256:
            raise PipelineError(f"{file.path} is not as it was committed: see with verify what else is.")
        target.upload(local, path)
        if check != "size" and target.digest(path) != digest:
            target.delete(path)
            raise PipelineError(f"{target.url}/{path} is not what was uploaded (SHA-256 differs): run it again.")
        return file.rows

    try:
        in_parallel(upload, todo.to_upload, progress.add)
    finally:
        progress.end()


def in_parallel(
    task: Callable[[Item], Result], items: Iterable[Item], done: Callable[[Result], None] | None = None
) -> list[Result]:
    """Run a task for each item, some at a time, and return the results. After an error no further task begins.

    A signal is raised here and not in a task, so it cannot end an upload in the middle.
    """
    results = []
    with ThreadPoolExecutor(REQUESTS_AT_A_TIME, thread_name_prefix="publish") as pool:
        try:
            for result in pool.map(task, items):
                results.append(result)
                if done is not None:
                    done(result)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results
