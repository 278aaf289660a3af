"""Write the metrics of a lake as one HTML page with plots: it opens in any browser, without a network.

Run `export` and `rollup` before. Neither Spark nor the database is needed.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from django_pgqueue.spark.arguments import add_lake, day
from django_pgqueue.spark.errors import PipelineError


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_lake(parser)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page; one that is there is replaced (default: report.html)",
    )
    parser.add_argument(
        "--days", type=_days, default=7, metavar="N", help="the newest N days that the lake has metrics of (default: 7)"
    )
    parser.add_argument(
        "--until", type=day, metavar="DAY", help="the last day, as 2026-11-21 (default: the newest with metrics)"
    )
    parser.add_argument(
        "--against",
        type=day,
        metavar="DAY",
        help="compare with as many days that end with this one (default: the days just before)",
    )
    parser.add_argument(
        "--queue", action="append", default=[], metavar="NAME", help="this queue only; may be given several times"
    )
    parser.add_argument(
        "--channel", metavar="NAME", help="a page of this channel, of the one --queue (default: the queue default)"
    )


def _days(given: str) -> int:
    if not given.isdecimal() or not 1 <= int(given) <= 3660:
        raise ArgumentTypeError(f"{given!r} is not a number of days between 1 and 3660")
    return int(given)


def run(args: Namespace) -> int:
    """Write the report and print where it is. Returns 0; raises PipelineError."""
    from django_pgqueue.spark.report.read import Choice
    from django_pgqueue.spark.report.write import ReportRequest, write

    queues = args.queue
    if args.channel is not None:
        queues = queues or ["default"]
        if len(queues) > 1:
            raise PipelineError("--channel is that of one queue: give --queue once.")
    asked = ReportRequest(args.days, Choice(queues, args.channel), args.until, args.against)
    print(write(args.lake, args.output, asked))
    return 0
