"""Write the metrics of a lake as one HTML page: what happened in sentences, three plots, and a table for each level.

It opens in any browser, without a network. Run `export` and `rollup` before. Neither Spark nor the database is needed.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from django_pgqueue.spark.arguments import add_lake, day, whole
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.report.page import page
from django_pgqueue.spark.report.read import Subject, read


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
        "--days",
        type=whole(1, 3660),
        default=7,
        metavar="N",
        help="the newest N days that the lake has metrics of (default: 7)",
    )
    parser.add_argument(
        "--until", type=day, metavar="DAY", help="the last day, as 2026-11-21 (default: the newest with metrics)"
    )
    parser.add_argument(
        "--queue", action="append", default=[], metavar="NAME", help="this queue only; may be given several times"
    )
    parser.add_argument(
        "--channel", metavar="NAME", help="a page of this channel, of the one --queue (default: the queue default)"
    )


def run(args: Namespace) -> int:
    """Write the report and print where it is. Returns 0; raises PipelineError."""
    queues = args.queue
    if args.channel is not None:
        queues = queues or ["default"]
        if len(queues) > 1:
            raise PipelineError("--channel is that of one queue: give --queue once.")
    data = read(args.lake, Subject(tuple(queues), args.channel), args.days, args.until)
    text = page(data)
    try:
        durable.replace(args.output, text)
    except OSError as error:
        raise PipelineError(f"{args.output} cannot be written: {error.strerror}.") from None
    counted = {"queue": len(data.queues), "day": len(data.days)}
    counts = [f"{number:,} {what}{'s' * (number != 1)}" for what, number in counted.items()]
    print(f"{args.output.resolve()}: {', '.join(counts)}, {len(text.encode()) / 1000:,.0f} kB")
    return 0
