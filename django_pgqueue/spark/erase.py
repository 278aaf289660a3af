"""Erase a tenant: remove all rows of a channel from the lake, also from its metrics and forecasts.

Erase it in the database first (pgqueue erase channel), or the next export brings its new rows. A killed run leaves each
day as it was or erased; run it again. With a source, the database learns how many rows the lake has now.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from django_pgqueue.spark.arguments import add_lake, add_source, named_source

if TYPE_CHECKING:
    import pyarrow as pa

    from django_pgqueue.spark.lake import ParquetLake
    from django_pgqueue.spark.lake.writing import Writing

# The column of the channel's name in each table of a lake.
NAMED = {"archive": "channel", "dead_letter": "channel", "channel": "name", "metrics": "channel", "forecast": "channel"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    parser.add_argument("--queue", required=True, metavar="NAME", help="the queue of the channel")
    parser.add_argument("--channel", required=True, metavar="NAME", help="the channel")
    parser.add_argument("--dry-run", action="store_true", help="only count the rows")


def run(args: Namespace) -> int:
    """Remove the rows of a channel from the lake, or count them with --dry-run. Returns 0; raises PipelineError."""
    from django_pgqueue.spark.export import register
    from django_pgqueue.spark.lake import ParquetLake

    lake = ParquetLake.open(args.lake)
    source = named_source(args)
    if source is not None:
        register.check_identity(lake, source.identity(), adopt=False)
    counts = count(lake, args.queue, args.channel) if args.dry_run else erase(lake, args.queue, args.channel)
    rows = ", ".join(f"{number:,} {table}" for table, number in sorted(counts.items()) if number) or "no rows"
    word = "would be erased" if args.dry_run else "is erased"
    print(f"channel {args.channel} of queue {args.queue} {word} in the lake: {rows}")
    if source is not None and not args.dry_run and lake.state.get("exported_xid"):
        warning = register.report_export(source, lake, new=False)
        if warning:
            print(f"Warning: {warning}", file=sys.stderr)
    return 0


def count(lake: ParquetLake, queue: str, channel: str) -> Counter[str]:
    """Return the number of rows of the channel by table."""
    lake.settle()
    names = names_of_channel(lake, queue, channel)
    return Counter(
        {table: sum(count_matching(path, table, queue, names) for path in lake.files(table)) for table in NAMED}
    )


def erase(lake: ParquetLake, queue: str, channel: str) -> Counter[str]:
    """Write the days anew that have rows of the channel, each in a commit of its own. Returns the rows by table.

    The configuration of channels goes last: it has the other names of the channel, which a second run needs.
    """
    erased: Counter[str] = Counter()
    with lake.writing() as writing:
        names = names_of_channel(lake, queue, channel)
        for table in sorted(NAMED, key=lambda table: table == "channel"):
            for partition in lake.partitions(table):
                erased[table] += erase_partition(lake, writing, table, partition, queue, names)
    return erased


def erase_partition(
    lake: ParquetLake, writing: Writing, table: str, partition: str, queue: str, names: list[str]
) -> int:
    """Replace the files of a partition that has rows of the channel. Returns the number of these rows."""
    from django_pgqueue.spark.export.task import DICTIONARY
    from django_pgqueue.spark.lake.rewriting import rewrite

    paths = sorted((lake.path / table / partition).glob("*.parquet"))
    found = sum(count_matching(path, table, queue, names) for path in paths)
    if found:
        others = partial(keep, table=table, queue=queue, names=names)
        staged = (rewrite(writing, path, table, partition, DICTIONARY, others) for path in paths)
        kept = [file for file in staged if file]
        writing.commit("erase", kept, replace=[(table, partition)])
    return found


def names_of_channel(lake: ParquetLake, queue: str, channel: str) -> list[str]:
    """Return the channel's name, and the names that it had in the database after its name was used again."""
    import pyarrow.parquet as pq

    from django_pgqueue.spark.lake.rewriting import damage_named

    names = {channel}
    for path in lake.files("channel"):
        with damage_named(path):
            rows = pq.read_table(path, columns=["id", "queue", "name"], partitioning=None).to_pylist()
        for row in rows:
            if row["queue"] == queue and row["name"] == f"{channel} (released {row['id']})":
                names.add(row["name"])
    return sorted(names)


def count_matching(path: Path, table: str, queue: str, names: list[str]) -> int:
    """Return the number of rows of the channel in a file; only two columns are read."""
    import pyarrow.parquet as pq

    from django_pgqueue.spark.lake.rewriting import damage_named

    with damage_named(path), pq.ParquetFile(path) as file:
        batches = file.iter_batches(columns=["queue", NAMED[table]])
        return sum(batch.num_rows - keep(batch, table, queue, names).true_count for batch in batches)


def keep(batch: pa.RecordBatch, table: str, queue: str, names: list[str]) -> pa.BooleanArray:
    """Return a mask of the rows to keep: those of other channels, and of whole queues, which have no channel."""
    import pyarrow as pa
    import pyarrow.compute as pc

    its = pc.and_(pc.equal(batch.column("queue"), queue), pc.is_in(batch.column(NAMED[table]), pa.array(names)))
    return pc.invert(pc.fill_null(its, False))
