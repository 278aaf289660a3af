"""Compute the metrics of the days that changed since the last rollup, per minute, hour and day.

With a source, they are loaded into its database, where the admin shows them. Only --source or the variable
PGQUEUE_SOURCE names one here.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from datetime import timedelta

from django_pgqueue.spark.arguments import add_engine, add_lake, add_sla, add_source, engine, named_source, whole
from django_pgqueue.spark.export.register import check_identity
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.load import Loaded, load_metrics
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import Touched, find_touched, is_small, rollup

GRAINS = ("minute", "hour", "day")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    add_source(parser)
    add_engine(parser)
    add_sla(parser)
    parser.add_argument("--all", action="store_true", help="compute all days again, as after a change of --sla")
    parser.add_argument(
        "--load-grains",
        nargs="+",
        choices=GRAINS,
        default=["hour", "day"],
        metavar="GRAIN",
        help="the grains to load into the database: minute, hour, day (default: hour day)",
    )
    parser.add_argument(
        "--keep-minutes",
        type=whole(1),
        default=7,
        metavar="N",
        help="keep metrics by minute of the newest N days of the lake only; those by hour and day stay (default: 7)",
    )
    parser.add_argument(
        "--keep-days",
        type=whole(1),
        default=90,
        metavar="N",
        help="remove metrics that are older than N days from the database (default: 90)",
    )


def run(args: Namespace) -> int:
    """Compute the metrics of the days that changed, and load them if a source is named. Returns 0; raises
    PipelineError.
    """
    began = time.monotonic()
    source = named_source(args)
    lake = Lake.open(args.lake)
    if source:
        check_identity(lake, source.identity(), adopt=False)
    touched = find_touched(lake, everything=args.all)
    if touched.days:
        _roll(args, lake, touched)
    is_new = bool(touched.days)
    if source:
        is_new |= _load(args, lake, source)
    print(f"Done in {time.monotonic() - began:.1f} s." if is_new else "Nothing is new since the last rollup.")
    return 0


def _roll(args: Namespace, lake: Lake, touched: Touched) -> None:
    """Compute the metrics of the days that changed, on Spark if they have many messages or a master is given."""
    here = args.master is None and is_small(touched)
    with nullcontext() if here else engine("rollup", args) as spark:
        rolled = rollup(
            spark, lake, dict(args.sla), everything=args.all, keep_minutes=args.keep_minutes, done=_say_progress
        )
    print(f"Metrics of {len(rolled.days):,} days: {rolled.rows:,} rows.")


def _load(args: Namespace, lake: Lake, source: Source) -> bool:
    """Load metrics into the database. Returns whether anything changed there."""
    loaded = load_metrics(source, lake, args.load_grains, keep=timedelta(days=args.keep_days), everything=args.all)
    if is_new := loaded != Loaded():
        print(
            f"Loaded into the database: {loaded.days:,} days, {loaded.rows:,} rows; {loaded.expired:,} old rows "
            "removed."
        )
    return is_new


def _say_progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:,} of {of:,} days", end="\n" if done == of else "", file=sys.stderr, flush=True)
