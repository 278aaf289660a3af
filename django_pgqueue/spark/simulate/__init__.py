"""Replay what the archive says of a queue against other limits: how long would each tenant have waited?

The messages come when they came and run as long as they ran; the line, the turns, the limits and the rates are those
of the engine. The first replay has the limits that were in force, so that you see how far to trust the second.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace

from django_pgqueue.spark import arguments
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.simulate.limits import Change, QueueLimits, SharedLimits


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    arguments.add_lake(parser)
    parser.add_argument("--queue", default="default", metavar="NAME", help="the queue (default: default)")
    parser.add_argument(
        "--days",
        type=arguments.at_least_one,
        default=1,
        metavar="N",
        help="the last N days of the lake, UTC (default: 1)",
    )
    parser.add_argument(
        "--set",
        type=change,
        action="append",
        default=[],
        metavar="CHANNEL.FIELD=VALUE",
        dest="changes",
        help="another limit: max_concurrency, release_interval (500ms, 2s), release_burst, weight, paused (yes), "
        "ordered (yes), on_dead (pause); "
        "none lifts it; without CHANNEL for all; may be repeated",
    )
    parser.add_argument(
        "--set-queue",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a limit of all channels together: max_concurrency, release_interval, release_burst, fairness (share), "
        "max_share; may be repeated",
    )
    parser.add_argument(
        "--set-limit",
        action="append",
        default=[],
        metavar="NAME.FIELD=VALUE",
        help="a shared limit: max_concurrency, max_cost, release_interval, release_burst; handlers (names) or id says "
        "which messages have it; may be repeated",
    )
    parser.add_argument(
        "--workers", type=arguments.at_least_one, metavar="N", help="another number of worker processes"
    )
    parser.add_argument(
        "--concurrency",
        type=arguments.at_least_one,
        metavar="N",
        help="--concurrency of the workers (default: 4, or more if the archive shows more)",
    )
    parser.add_argument(
        "--batch", type=arguments.at_least_one, default=100, metavar="N", help="--batch of the workers (default: 100)"
    )
    parser.add_argument("--validate", action="store_true", help="say channel by channel how far the replay is off")
    parser.add_argument(
        "--top", type=arguments.at_least_one, default=20, metavar="N", help="channels to show (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    arguments.add_engine(parser)


def run(args: Namespace) -> int:
    """Replay the archive with the limits that were, then with the changed ones, and print both. Returns 0; raises
    PipelineError."""
    from django_pgqueue.spark.lake import ParquetLake
    from django_pgqueue.spark.simulate import output
    from django_pgqueue.spark.simulate.job import Scenario, files_of, simulate

    lake = ParquetLake.open(args.lake)
    files, days = files_of(lake, args.days)
    was = Scenario(args.queue, files, concurrency=args.concurrency, batch=args.batch)
    try:
        limits, shared = QueueLimits.parse(args.set_queue), SharedLimits.parse(args.set_limit)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    other = replace(was, changes=tuple(args.changes), workers=args.workers, limits=limits, shared=shared)
    scenarios = [was] if other.as_it_was else [was, other]
    with arguments.engine("simulate", args) as spark:
        outcomes = simulate(spark, lake, scenarios)
    output.show(outcomes, queue=args.queue, days=days, top=args.top, validate=args.validate, as_json=args.json)
    return 0


def change(text: str) -> Change:
    """Read ``CHANNEL.FIELD=VALUE``. Raises ArgumentTypeError."""
    try:
        return Change.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
