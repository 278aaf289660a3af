"""Computes the metrics of the days that changed since the last rollup, per minute, hour and day, and a forecast.

With a source, metrics and forecast are loaded into its database, where the admin shows them.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from .arguments import add_engine, add_lake, engine


def add_arguments(parser: ArgumentParser) -> None:
    add_lake(parser)
    add_engine(parser)
    parser.add_argument(
        "--sla",
        action="append",
        default=[],
        metavar="NAME=DURATION",
        help="how long messages of a queue, or of QUEUE/CHANNEL, may take from enqueue to the end: default=30s; "
        "may be repeated",
    )
    parser.add_argument("--all", action="store_true", help="compute all days anew, as after a change of --sla")


def run(args: Namespace) -> int:
    from .lake import Lake
    from .transforms.rollup import rollup
    from .transforms.sla import parse_sla

    sla = parse_sla(args.sla)
    lake = Lake.open(args.lake)
    with engine("rollup", args) as spark:
        rolled = rollup(spark, lake, sla, everything=args.all)
    print(f"{len(rolled.days)} days computed, {rolled.rows} rows")
    return 0
