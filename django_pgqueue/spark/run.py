"""Export, roll up, load and compact in turn: once, or again and again with --every.

With --every the process goes on until it is ended. Spark is started when a turn first needs it, and kept for the next
ones. What fails is said on stderr, and tried again in the next turn.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace

from django_pgqueue.spark.arguments import add_engine, add_lake, add_sla, add_source, duration

# Compaction lists all files of the lake. It merges those of days that are over.
COMPACT_SECONDS = 3600


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    add_engine(parser)
    add_sla(parser)
    parser.add_argument(
        "--every",
        type=duration,
        metavar="DURATION",
        help="begin a turn so often: 1m, 30s; after a longer turn the next one begins at once (default: one turn)",
    )


def run(args: Namespace) -> int:
    """Run one turn and return the highest exit status of its steps; with ``args.every``, go on until the process is
    ended, or Java has ended.
    """
    from django_pgqueue.spark.session import java_ended, keep_session

    compacted = -float(COMPACT_SECONDS)
    with keep_session():
        while True:
            began = time.monotonic()
            is_due = began - compacted >= COMPACT_SECONDS
            status = _turn(args, compact=is_due)
            compacted = began if is_due else compacted
            # A session whose Java has ended cannot be used, nor replaced in the same process.
            if args.every is None or status > 1 or java_ended():
                return status
            time.sleep(max(0.0, began + args.every.total_seconds() - time.monotonic()))


def _turn(args: Namespace, *, compact: bool) -> int:
    """Run the commands as if each was called by itself. Returns the highest status; an interrupt ends the turn."""
    from django_pgqueue.spark.cli import INTERRUPTED, main
    from django_pgqueue.spark.source import VARIABLE

    lake = [f"--lake={args.lake}"]
    # Named, so that the rollup loads into a database that only the variables of libpq give, too.
    source = f"--source={os.environ.get(VARIABLE, '') if args.source is None else args.source}"
    engine = [f"--memory={args.memory}", *(f"--conf={key}={value}" for key, value in args.conf)]
    engine += [f"--master={args.master}"] if args.master else []
    sla = [f"--sla={name}={limit.total_seconds():f}" for name, limit in args.sla]
    steps = [["export", *lake, source, *engine], ["rollup", *lake, source, *engine, *sla]]
    steps += [["compact", *lake]] if compact else []
    highest = 0
    for step in steps:
        highest = max(highest, main(step))
        if highest == INTERRUPTED:
            break
    return highest
