"""Erase a tenant: remove all rows of a channel from the lake, also from its metrics.

Erase it in the database first (pgqueue erase channel), or the next export brings its new rows. No file of an earlier
version is left: time travel ends here. A killed run leaves each day as it was or erased; run it again. With a source,
the database learns how many rows the lake has now.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from contextlib import nullcontext
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.arguments import add_lake, add_source, named_source
from django_pgqueue.spark.export import register
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.rows import read, rewrite
from django_pgqueue.spark.lake.writing import Writing, check_log, vacuum
from django_pgqueue.spark.schema import BIG, TEXT

# The column of the channel's name in each table of a lake.
NAMED = {"archive": "channel", "dead_letter": "channel", "channel": "name", "metrics": "channel"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    parser.add_argument("--queue", required=True, metavar="NAME", help="the queue of the channel")
    parser.add_argument("--channel", required=True, metavar="NAME", help="the channel")
    parser.add_argument("--dry-run", action="store_true", help="only count the rows")


def run(args: Namespace) -> int:
    """Remove the rows of a channel from the lake, or count them with --dry-run. Returns 0; raises PipelineError."""
    lake = Lake.open(args.lake)
    source = named_source(args)
    if source is not None:
        register.check_identity(lake, source.identity(), adopt=False)
    counts = erase(lake, args.queue, args.channel, dry_run=args.dry_run)
    rows = ", ".join(f"{number:,} {table}" for table, number in sorted(counts.items()) if number) or "no rows"
    word = "would be erased" if args.dry_run else "is erased"
    print(f"channel {args.channel} of queue {args.queue} {word} in the lake: {rows}")
    if source is not None and not args.dry_run and lake.exported():
        warning = register.report_export(source, lake, new=False)
        if warning:
            print(f"Warning: {warning}", file=sys.stderr)
    return 0


def erase(lake: Lake, queue: str, channel: str, *, dry_run: bool = False) -> Counter[str]:
    """Write the files anew that have rows of the channel, each day in a version of its own, and delete the old ones.

    Returns the rows by table. ``dry_run``: only count them. The configuration of channels goes last: it has the other
    names of the channel, which a second run needs.
    """
    erased: Counter[str] = Counter()
    with nullcontext() if dry_run else lake.writing() as writing:
        for table in NAMED:
            check_log(lake, table)
        names = names_of_channel(lake, queue, channel)
        for table in sorted(NAMED, key=lambda table: table == "channel"):
            found: dict[str, list[LakeFile]] = defaultdict(list)
            for file in lake.files(table):
                if count := count_matching(lake, file, queue, names):
                    found[file.partition].append(file)
                    erased[table] += count
            if writing:
                for files in found.values():
                    erase_files(writing, files, queue, names)
                # Files that were replaced before may have rows of the channel, too.
                vacuum(lake, table, 0, full=True)
    return erased


def erase_files(writing: Writing, files: list[LakeFile], queue: str, names: list[str]) -> None:
    """Replace files of a partition that have rows of the channel."""
    table, partition = files[0].table, files[0].partition
    others = partial(keep, table=table, queue=queue, names=names)
    paths = rewrite(writing.lake.path, files, writing.stage(table, partition).parent, others)
    writing.commit(table, "erase", map(writing.staged, paths), files)


def names_of_channel(lake: Lake, queue: str, channel: str) -> list[str]:
    """Return the channel's name, and the names that it had in the database after its name was used again."""
    names = {channel}
    for path in lake.paths("channel"):
        for row in read(path, pa.schema([("id", BIG), ("queue", TEXT), ("name", TEXT)])).to_pylist():
            if row["queue"] == queue and row["name"] == f"{channel} (released {row['id']})":
                names.add(row["name"])
    return sorted(names)


def count_matching(lake: Lake, file: LakeFile, queue: str, names: list[str]) -> int:
    """Return the number of rows of the channel in a file; only two columns are read."""
    rows = read(lake.path / file.path, pa.schema([("queue", TEXT), (NAMED[file.table], TEXT)]))
    found: int = rows.num_rows - rows.filter(keep(rows, file.table, queue, names)).num_rows
    return found


def keep(rows: pa.RecordBatch | pa.Table, table: str, queue: str, names: list[str]) -> pa.BooleanArray:
    """Return a mask of the rows to keep: those of other channels, and of whole queues, which have no channel."""
    its = pc.and_(pc.equal(rows.column("queue"), queue), pc.is_in(rows.column(NAMED[table]), pa.array(names)))
    return pc.invert(pc.fill_null(its, False))
