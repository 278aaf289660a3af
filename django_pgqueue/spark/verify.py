"""Check that the lake is whole: every committed file is there with the content that was committed, and nothing else is.

With a source, named or in PGQUEUE_SOURCE, the days that the database still has are compared with it, row by row.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

from django_pgqueue.spark.arguments import add_lake, add_source, day, named_source
from django_pgqueue.spark.export.comparison import compare_days, pruned_days
from django_pgqueue.spark.export.losses import loss_text
from django_pgqueue.spark.export.register import check_identity, remembered
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.writing import check_log, unknown_files
from django_pgqueue.spark.remedies import (
    Problem,
    forget_missing,
    lost_messages,
    problem_of_file,
    problems_of_day,
    remedies,
)
from django_pgqueue.spark.schema import TABLES
from django_pgqueue.spark.source import Source

UNKNOWN = "no version of its table knows it."
DAY_OF = re.compile(r"day=(\d{4}-\d\d-\d\d)")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    parser.add_argument(
        "--since",
        type=day,
        default=date.min,
        metavar="DAY",
        help="only this day and later ones, as 2026-11-21: for a lake whose old days were removed",
    )
    parser.add_argument(
        "--forget-missing",
        action="store_true",
        help="accept that missing files of messages, dead letters and channels are lost: no later run reports them",
    )


def run(args: Namespace) -> int:
    """Check the lake and print each problem to stderr. Returns 1 if there are any, or else 0."""
    lake = Lake.open(args.lake)
    for table in TABLES:
        check_log(lake, table)
    if args.forget_missing:
        print(forget_missing(lake, args.since))
    while True:
        versions = lake.versions
        files = [file for table in versions for file in lake.files(table) if file.day >= args.since]
        found = dict(find_problems(lake, files, args.since))
        # If another run wrote the lake meanwhile, what it has replaced is no problem.
        if not found or lake.versions == versions:
            break
    rows = sum(file.rows for file in files)
    print(f"{len(files):,} files, {rows:,} rows, {sum(versions.values()):,} commits.")
    if without := sum(not file.sha256 for file in files):
        print(f"The content of {without:,} files cannot be compared: another program has written them.")
    source = named_source(args)
    differences, there = compare(lake, source, args.since) if source else ([], None)
    problems = [problem_of_file(lake, path, text, there, unknown=text == UNKNOWN) for path, text in found.items()]
    problems += differences
    for each in problems:
        print(each.text, file=sys.stderr)
    if problems:
        print(*remedies(problems), sep="\n", file=sys.stderr)
        return 1
    print("The lake is whole.")
    return 0


def find_problems(lake: Lake, files: Sequence[LakeFile], since: date) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each committed file that is missing or differs, and of each unknown file.

    ``since``: older days are not looked at.
    """
    for file in files:
        if problem := look_at(lake, file):
            yield file.path, problem
    for table in TABLES:
        for path in unknown_files(lake, table):
            day = DAY_OF.search(str(path.parent))
            if day is None or day[1] >= since.isoformat():
                yield path.relative_to(lake.path).as_posix(), UNKNOWN


def look_at(lake: Lake, file: LakeFile) -> str:
    """Read a file whole, and return its problem as text, or "" if there is none."""
    path = lake.path / file.path
    try:
        if (size := path.stat().st_size) != file.bytes:
            return f"it has {size:,} bytes, committed were {file.bytes:,}."
        if file.sha256:
            same = sha256_of(path) == file.sha256
            return "" if same else "its content is not that which was committed (SHA-256 differs)."
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            rows = sum(batch.num_rows for batch in parquet.iter_batches())
    except FileNotFoundError:
        return "it is missing."
    except (OSError, pa.ArrowException) as error:
        return f"it cannot be read: {' '.join(str(error).split())}"
    return "" if rows == file.rows else f"it has {rows:,} rows, committed were {file.rows:,}."


def compare(lake: Lake, source: Source, since: date) -> tuple[list[Problem], set[tuple[str, date]]]:
    """Return the problems of the days on which lake and database differ, and the tables and days that it has.

    Rows above the horizon of the last export are not compared. ``since``: older days are left out.
    """
    check_identity(lake, source.identity(), adopt=False)
    problems: list[Problem] = []
    there: set[tuple[str, date]] = set()
    with source.connect() as connection, source.errors():
        pruned = pruned_days(connection)
        for lost, rows in sorted(remembered(connection, lake)[1].items()):
            if date.fromisoformat(lost) >= since:
                problems.append(lost_messages(lake.description.name, f"archive: {loss_text(lost, rows)}"))
        while True:
            versions = lake.versions
            different: list[Problem] = []
            for day in compare_days(source, connection, lake, since):
                if day.there:
                    there.add((day.table, day.day))
                different += problems_of_day(day, pruned=day.table == "archive" and day.day in pruned)
            # If another run wrote the lake meanwhile, it has rows above the horizon that was compared.
            if not different or lake.versions == versions:
                break
    days = sum(table == "archive" for table, _ in there)
    print(f"Compared with the database: {days:,} days, up to transaction {lake.exported():,}.")
    return problems + different, there
