"""Merge small files of each day into larger ones, and old commit files into one. No row changes.

It reads and writes beside a running export, and holds the lake only for a moment, when a day is done. A reader of the
folders sees each row once. A killed run leaves each day as it was or merged; run it again. It needs no Java.
"""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django_pgqueue.spark.arguments import add_lake

if TYPE_CHECKING:
    from django_pgqueue.spark.lake import LakeFile, ParquetLake, StagedFile
    from django_pgqueue.spark.lake.writing import Writing

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB|)", re.IGNORECASE)
UNITS = {"": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3}
# An export holds the lake as long as it reads.
BUSY_SECONDS = 3600
FOLDER = "compacting"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add_lake(parser)
    parser.add_argument(
        "--target-size",
        type=size,
        default="128MB",
        metavar="SIZE",
        help="merge files that are smaller, into files of about this size: 64MB, 1GB (default: 128MB)",
    )
    parser.add_argument(
        "--older-than",
        type=days,
        default=1,
        metavar="DAYS",
        help="only days and commits that are at least so many days old; 0: today, too (default: 1)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be merged")


def size(text: str) -> int:
    """Return the bytes of a text such as 128MB. Raises ArgumentTypeError."""
    match = SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise ArgumentTypeError(f"a size such as 128MB is wanted, not {text!r}")
    return int(float(match[1]) * UNITS[match[2].lower()])


def days(text: str) -> int:
    """Return a number of days from the text of an option. Raises ArgumentTypeError."""
    if not text.isdigit():
        raise ArgumentTypeError(f"a number of days is wanted, not {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Work:
    """Small files of one partition that are to be merged. ``results``: about how many files they will be."""

    table: str
    partition: str
    files: tuple[LakeFile, ...]
    results: int

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def run(args: Namespace) -> int:
    """Merge files and commits, or print what would be merged. Returns the exit code. Raises PipelineError, LakeBusy."""
    from django_pgqueue.spark.lake import ParquetLake

    lake = ParquetLake.open(args.lake)
    lake.settle()
    newest = datetime.now(UTC).date() - timedelta(days=args.older_than)
    work = list(find_work(lake, args.target_size, newest))
    commits = sum(number < old_commit(lake, newest) for number in lake.commit_numbers())
    if args.dry_run:
        for each in work:
            print(
                f"{each.table}/{each.partition}: {len(each.files):,} files, {each.bytes:,} bytes, into {each.results:,}"
            )
        print(f"Would merge {sum(len(each.files) for each in work):,} files and {commits:,} commits.")
        return 0
    before, after = compact(lake, work, args.target_size)
    with waiting_for(lake):
        from django_pgqueue.spark.lake.history import merge_commits

        commits = merge_commits(lake, old_commit(lake, newest))
    print(f"Merged {before:,} files into {after:,}; {commits:,} commits were merged into a later one.")
    return 0


def find_work(lake: ParquetLake, target_bytes: int, newest: date) -> Iterator[Work]:
    """Yield what can be merged in partitions up to a day, the oldest first. Raises PipelineError."""
    from django_pgqueue.spark.lake.history import committed_files

    small: dict[tuple[date, str, str], list[LakeFile]] = defaultdict(list)
    for file in committed_files(lake).values():
        if file.day <= newest and file.bytes < target_bytes and (lake.path / file.path).exists():
            small[file.day, file.table, file.partition].append(file)
    for (_, table, partition), files in sorted(small.items(), key=lambda item: item[0]):
        results = -(-sum(file.bytes for file in files) // target_bytes)
        if results < len(files):
            yield Work(table, partition, tuple(sorted(files, key=lambda file: file.name)), results)


def old_commit(lake: ParquetLake, newest: date) -> int:
    """Return the newest commit that may be merged with those before it, or 0.

    Rollups and loads look at each commit after the last one that they know. The newest commit stays as it is.
    """
    state, numbers = lake.state, lake.commit_numbers()[:-1]
    known = [number for number in (state.get("rolled_up", 0), *state.get("loaded", {}).values()) if number]
    numbers = [number for number in numbers if number <= min(known, default=number)]
    old = bisect_right(numbers, newest.isoformat(), key=lambda number: lake.commit(number).at[:10])
    return numbers[old - 1] if old else 0


def compact(lake: ParquetLake, work: Iterable[Work], target_bytes: int) -> tuple[int, int]:
    """Merge the files of each partition, in a commit of its own. Returns how many files there were, and are."""
    from django_pgqueue.spark.scratch import scratch

    before = after = 0
    parent = lake.control / FOLDER
    parent.mkdir(exist_ok=True)
    with scratch(parent) as folder:
        for each in work:
            merged = merge(lake, each, folder, target_bytes)
            with waiting_for(lake) as writing:
                if replace_files(lake, writing, each, merged):
                    before, after = before + len(each.files), after + len(merged)
                else:
                    print(f"{each.table}/{each.partition} was written meanwhile; the next run merges it.")
    return before, after


def merge(lake: ParquetLake, work: Work, folder: Path, target_bytes: int) -> list[StagedFile]:
    """Write the rows of small files into larger ones of about ``target_bytes`` in ``folder``. Raises PipelineError."""
    from django_pgqueue.spark.export.task import DICTIONARY
    from django_pgqueue.spark.lake.merge import merge_files

    return merge_files(lake, work.files, folder, target_bytes, DICTIONARY)


def replace_files(lake: ParquetLake, writing: Writing, work: Work, merged: list[StagedFile]) -> bool:
    """Commit merged files in place of those that they were made of; False: others replaced or removed these meanwhile.

    No name of a file is used again, so files that are still there are those that were merged.
    """
    replaced = {file.path for file in work.files}
    folder = lake.path / work.table / work.partition
    present = {path.relative_to(lake.path).as_posix() for path in folder.glob("*.parquet")}
    if not replaced <= present:
        return False
    rows = {"rows": lake.state.get("rows", {})}
    writing.commit("compact", merged, replace=[(work.table, work.partition)], keep=present - replaced, state=rows)
    return True


@contextmanager
def waiting_for(lake: ParquetLake) -> Iterator[Writing]:
    """Take the right to write when the run that has it is done. Raises LakeBusy after an hour."""
    from contextlib import ExitStack

    from django_pgqueue.spark.lake.writing import LakeBusy

    deadline = time.monotonic() + BUSY_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                writing = stack.enter_context(lake.writing())
            except LakeBusy:
                if time.monotonic() > deadline:
                    raise
            else:
                break
        yield writing
