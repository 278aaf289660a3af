"""Merge small files of each day into larger ones, and delete files that were replaced long ago. No row changes.

It reads and writes beside a running export, and holds the lake only for a moment, when a day is done. A reader sees
each row once. A killed run leaves each day as it was or merged; run it again. It needs no Java.
"""

from __future__ import annotations

import re
import shutil
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from django_pgqueue.spark.arguments import add_lake, whole
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.rows import rewrite
from django_pgqueue.spark.lake.writing import Writing, lake_lock, vacuum
from django_pgqueue.spark.schema import TABLES

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
        type=whole(0),
        default=1,
        metavar="DAYS",
        help="only days that are at least so many days old; 0: today, too (default: 1)",
    )
    parser.add_argument(
        "--keep-days",
        type=whole(0),
        default=7,
        metavar="DAYS",
        help="delete files that were replaced so many days ago: readers of earlier versions need them (default: 7)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be merged")


def size(text: str) -> int:
    """Return the bytes of a text such as 128MB. Raises ArgumentTypeError."""
    match = SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise ArgumentTypeError(f"a size such as 128MB is wanted, not {text!r}")
    return int(float(match[1]) * UNITS[match[2].lower()])


# Small files of one partition that are to be merged, and about how many files they will be.
Work = tuple[list[LakeFile], int]


def run(args: Namespace) -> int:
    """Merge files, or print what would be merged. Returns the exit code. Raises PipelineError, LakeBusy."""
    lake = Lake.open(args.lake)
    newest = datetime.now(UTC).date() - timedelta(days=args.older_than)
    work = list(find_work(lake, args.target_size, newest))
    if args.dry_run:
        for files, results in work:
            count, size_bytes = len(files), sum(file.bytes for file in files)
            print(f"{files[0].table}/{files[0].partition}: {count:,} files, {size_bytes:,} bytes, into {results:,}")
        print(f"Would merge {sum(len(files) for files, _ in work):,} files.")
        return 0
    before, after = compact(lake, work)
    for table in TABLES:
        vacuum(lake, table, 24 * args.keep_days)
    print(f"Merged {before:,} files into {after:,}.")
    return 0


def find_work(lake: Lake, target_bytes: int, newest: date) -> Iterator[Work]:
    """Yield what can be merged in partitions up to a day, the oldest first. Raises PipelineError."""
    small: dict[tuple[date, str, str], list[LakeFile]] = defaultdict(list)
    for file in (file for table in TABLES for file in lake.files(table)):
        if file.day <= newest and file.bytes < target_bytes and (lake.path / file.path).exists():
            small[file.day, file.table, file.partition].append(file)
    for _, files in sorted(small.items(), key=lambda item: item[0]):
        results = -(-sum(file.bytes for file in files) // target_bytes)
        if results < len(files):
            yield files, results


def compact(lake: Lake, work: Iterable[Work]) -> tuple[int, int]:
    """Merge the files of each partition, in a version of its own. Returns how many files there were, and are."""
    before = after = 0
    folder = lake.control / FOLDER
    with lake_lock(lake, f"{FOLDER}.lock", "is being compacted"):
        # A killed run may have left its files.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for files, results in work:
            for file in files:
                if file.sha256 and sha256_of(lake.path / file.path) != file.sha256:
                    raise PipelineError(f"{lake.path / file.path} is not as it was committed: see with verify.")
            merged = rewrite(lake.path, files, folder, results=results)
            with lake.writing(BUSY_SECONDS) as writing:
                if replace_files(lake, writing, files, merged):
                    before, after = before + len(files), after + len(merged)
                else:
                    print(f"{files[0].table}/{files[0].partition} was written meanwhile; the next run merges it.")
    return before, after


def replace_files(lake: Lake, writing: Writing, files: list[LakeFile], merged: Iterable[Path]) -> bool:
    """Commit merged files in place of those that they were made of; False: others replaced or removed these meanwhile.

    No name of a file is used again, so files that are still there are those that were merged.
    """
    table, staged = files[0].table, []
    if not {*files} <= {*lake.files(table)}:
        return False
    for path in merged:
        to = writing.stage(table, files[0].partition)
        path.rename(to)
        staged.append(writing.staged(to))
    writing.commit(table, "compact", staged, files)
    return True
