"""Check that the lake is whole: every committed file is there with the content that was committed, and nothing else is.

With a source, named or in PGQUEUE_SOURCE, the days that the database still has are compared with it, too.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from django_pgqueue.spark.arguments import add_lake, add_since, add_source, named_source

if TYPE_CHECKING:
    from django_pgqueue.spark.lake import LakeFile, ParquetLake
    from django_pgqueue.spark.source import Source

REMEDY = "Remove what is damaged, then `export --rescan` writes anew the days that the archive still has."
UNKNOWN = "no commit knows it."


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    add_since(parser, ": for a lake whose old days were removed")


def run(args: Namespace) -> int:
    """Check the lake and print each problem to stderr. Returns 1 if there are any, or else 0."""
    from django_pgqueue.spark.lake import ParquetLake
    from django_pgqueue.spark.lake.history import committed_files

    lake = ParquetLake.open(args.lake)
    lake.settle()
    head = lake.head.number
    committed = {path: file for path, file in committed_files(lake).items() if file.day >= args.since}
    found = dict(find_problems(lake, committed, args.since))
    while found and lake.head.number != head:
        # Another run wrote the lake meanwhile: what it has replaced is no problem.
        lake.settle()
        head, now = lake.head.number, committed_files(lake)
        found = {path: problem for path in found if (problem := look_again(lake, path, now.get(path)))}
    problems = [f"{lake.path / path}: {problem}" for path, problem in found.items()]
    rows = sum(file.rows for file in committed.values())
    print(f"{len(committed):,} files, {rows:,} rows, {lake.head.number:,} commits.")
    if without := sum(not file.sha256 for file in committed.values()):
        print(f"The content of {without:,} files cannot be compared: their commits have no SHA-256.")
    if source := named_source(args):
        problems += compare(lake, source, args.since)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(REMEDY, file=sys.stderr)
        return 1
    print("The lake is whole.")
    return 0


def find_problems(lake: ParquetLake, committed: dict[str, LakeFile], since: date) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each committed file that is missing or differs, and of each unknown file.

    ``since``: older days are not looked at.
    """
    from django_pgqueue.spark.schema import TABLES

    for path, file in sorted(committed.items()):
        if problem := look_at(lake, file):
            yield path, problem
    days = {day for day in (_days(lake)) if day >= since}
    for table in TABLES:
        for there in lake.files(table, days):
            if (path := there.relative_to(lake.path).as_posix()) not in committed:
                yield path, UNKNOWN


def look_again(lake: ParquetLake, path: str, file: LakeFile | None) -> str:
    """Return the problem of a file by the commits of now, or "" if there is none."""
    if file is not None:
        return look_at(lake, file)
    return UNKNOWN if (lake.path / path).exists() else ""


def look_at(lake: ParquetLake, file: LakeFile) -> str:
    """Read a whole file and return its problem as text, or "" if there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from django_pgqueue.spark.lake.durable import sha256_of

    path = lake.path / file.path
    try:
        if (size := path.stat().st_size) != file.bytes:
            return f"it has {size:,} bytes, committed were {file.bytes:,}."
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            rows = sum(batch.num_rows for batch in parquet.iter_batches())
        digest = sha256_of(path)
    except FileNotFoundError:
        return "it is missing."
    except (OSError, pa.ArrowException) as error:
        return f"it cannot be read: {' '.join(str(error).split())}"
    if rows != file.rows:
        return f"it has {rows:,} rows, committed were {file.rows:,}."
    if file.sha256 and digest != file.sha256:
        return "its content is not that which was committed (SHA-256 differs)."
    return ""


def compare(lake: ParquetLake, source: Source, since: date) -> Iterator[str]:
    """Yield a text for each day on which lake and database differ, up to the horizon of the last export."""
    from django_pgqueue.spark.export.archive import find_partitions
    from django_pgqueue.spark.export.losses import loss_text
    from django_pgqueue.spark.export.register import check_identity, lost_rows
    from django_pgqueue.spark.export.repair import DEAD_LETTERS, rows_in_database

    check_identity(lake, source.identity(), adopt=False)
    exported = lake.state.get("exported_xid", 0)
    counted = {table: lake.state.get("rows", {}).get(table, {}) for table in ("archive", "dead_letter")}
    with source.connect() as connection, source.errors():
        for lost, rows in sorted(lost_rows(connection, lake).items()):
            if date.fromisoformat(lost) >= since:
                yield f"archive: {loss_text(lost, rows)}"
        partitions = [(part, part.day) for part in find_partitions(connection) if part.day and part.blocks]
        for partition, day in partitions:
            if day < since:
                continue
            there, here = rows_in_database(connection, partition, exported), _rows(counted["archive"], day)
            if there != here:
                yield f"archive of {day}: the lake has {here:,} rows, the database {there:,}."
        for day, there in connection.execute(DEAD_LETTERS, [exported]):
            # Days that retention has deleted from the database are still in the lake.
            if day >= since and there > _rows(counted["dead_letter"], day):
                here = _rows(counted["dead_letter"], day)
                yield f"dead letters of {day}: the lake has {here:,}, the database {there:,}."
    print(f"Compared with the database: {len(partitions):,} days, up to transaction {exported:,}.")


def _rows(counted: dict[str, int], day: date) -> int:
    return counted.get(day.isoformat(), 0)


def _days(lake: ParquetLake) -> set[date]:
    from django_pgqueue.spark.lake.commit import day_of
    from django_pgqueue.spark.schema import TABLES

    return {day_of(partition) for table in TABLES for partition in lake.partitions(table)}
