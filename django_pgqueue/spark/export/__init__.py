"""Bring what is new in the archive, the dead letters and the channels to the lake, each row once.

Run it as often as you like, from cron for example: what a killed run left is finished or removed by the next one.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from django_pgqueue.spark.arguments import add_engine, add_lake, add_source, source_of
from django_pgqueue.spark.export.job import Summary, export
from django_pgqueue.spark.export.task import ExportOptions

# The columns that --without may leave empty; a row is worth nothing without the others.
OPTIONAL = ("payload", "body", "headers", "result", "state", "errors", "details", "dedupe_key", "worker", "context")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    add_engine(parser)
    parser.add_argument(
        "--without",
        action="append",
        choices=(*OPTIONAL, "nothing"),
        metavar="COLUMN",
        help=f"leave a column empty, from now on; several times; of {', '.join(OPTIONAL)}; nothing: take all again",
    )
    parser.add_argument(
        "--rescan",
        action="store_true",
        help="compare all days row by row with the database, and repair those that lack rows",
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="go on with the same database after pg_upgrade, or with an old copy of the lake",
    )


def run(args: Namespace) -> int:
    """Run an export and print its summary. Returns 1 if rows were lost before they were exported, or else 0."""
    without = tuple(name for name in args.without if name != "nothing") if args.without else None
    options = ExportOptions(args.master, args.memory, dict(args.conf), without, args.rescan, args.adopt)
    summary = export(source_of(args), args.lake, options)
    print(summary_text(summary))
    for line in (summary.warning, *summary.losses):
        if line:
            print(f"Warning: {line}", file=sys.stderr)
    return 1 if summary.losses else 0


def summary_text(summary: Summary) -> str:
    """Return the summary in words, one or more lines."""
    archived, dead, channels = (summary.rows[table] for table in ("archive", "dead_letter", "channel"))
    lines = [f"Exported {archived:,} archived messages and {dead:,} dead letters"]
    if channels:
        lines[0] += f", and the configuration of {channels:,} channels"
    if summary.files:
        rate = (archived + dead) / summary.seconds
        lines[0] += (
            f": {summary.files} files, {size_in_words(summary.bytes)}, {summary.seconds:.1f} s, {rate:,.0f} rows/s."
        )
    elif summary.losses:
        lines[0] += f" ({summary.seconds:.1f} s)."
    else:
        lines[0] += f": nothing is new ({summary.seconds:.1f} s)."
    if summary.repaired:
        lines.append(f"Repaired: {', '.join(day.isoformat() for day in summary.repaired)}.")
    if summary.holder:
        lines.append(
            f"The horizon is held back since {summary.holder.since:%Y-%m-%d %H:%M:%S} UTC by {summary.holder.who}: "
            "a later export brings the rows that were committed since then."
        )
    return "\n".join(lines)


def size_in_words(count: float) -> str:
    """Return a number of bytes with a decimal unit: 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
