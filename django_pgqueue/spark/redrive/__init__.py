"""Put dead letters back into their queues: those that a condition in Spark SQL chooses, each once.

Each becomes a new message with all its attempts, at once and as a whole with thousands of others. What was redriven
before, is gone, or is refused by its channel, is counted. With --dry-run nothing is changed.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from django_pgqueue.spark import arguments
from django_pgqueue.spark.errors import PipelineError

if TYPE_CHECKING:
    from django_pgqueue.spark.lake import Lake
    from django_pgqueue.spark.source import Source

    from .tally import Tally


def add_arguments(parser: ArgumentParser) -> None:
    arguments.add_source(parser)
    parser.add_argument(
        "--where",
        required=True,
        metavar="SQL",
        help="which dead letters, in Spark SQL over their columns: \"reason = 'failed' AND handler = 'mail.send'\"",
    )
    parser.add_argument(
        "--lake", type=Path, metavar="PATH", help="choose from the dead letters of this lake (default: the database's)"
    )
    parser.add_argument(
        "--set-payload",
        metavar="SQL",
        help="the new payload, an expression over the same columns: text with JSON, a struct, a map or an array; NULL "
        "keeps the old one",
    )
    parser.add_argument("--channel", metavar="NAME", help="another channel of the same queue")
    parser.add_argument("--rate", type=rate, metavar="N/s", help="at most so many a second (default: no limit)")
    parser.add_argument("--dry-run", action="store_true", help="only count")
    arguments.add_engine(parser)


def run(args: Namespace) -> int:
    from django_pgqueue.spark.lake import Lake
    from django_pgqueue.spark.source import Source

    source = Source.from_environment() if args.source is None else Source.parse(args.source)
    # Said before Spark is up.
    source.connect().close()
    lake = None
    if args.lake is not None:
        lake = Lake.open(args.lake)
        same_database(lake, source)
    with arguments.engine("redrive", args) as spark:
        from .job import put_back
        from .letters import dead_letters, dead_letters_of

        if lake is None:
            letters = dead_letters(spark, source, args.where, args.set_payload)
        else:
            letters = dead_letters_of(spark, lake, args.where, args.set_payload)
        tally = put_back(letters, source, channel=args.channel, rate=args.rate, dry_run=args.dry_run)
    print(told(tally, dry_run=args.dry_run))
    for reason, count in sorted(tally.reasons.items(), key=lambda item: -item[1]):
        print(f"{count:,} refused: {reason}", file=sys.stderr)
    return 1 if tally.refused else 0


def same_database(lake: Lake, source: Source) -> None:
    """Raises PipelineError when the lake holds another database: its ids mean other letters here."""
    known = (lake.description.system_identifier, lake.description.database)
    here = source.identity()
    if known[0] != here[0] or known[1].split()[:1] != here[1].split()[:1]:
        raise PipelineError(
            f"The lake in {lake.path} holds another database (oid and name {known[1]}) than this one ({here[1]}): "
            "its ids belong to other dead letters here."
        )


def told(tally: Tally, *, dry_run: bool) -> str:
    """The counts in words."""
    parts = [
        f"{tally.selected:,} dead letters chosen",
        f"{tally.redriven:,} {'would be ' if dry_run else ''}redriven",
        f"{tally.already:,} were redriven before",
        f"{tally.gone:,} are gone",
        f"{tally.refused:,} {'would be ' if dry_run else ''}refused",
    ]
    return ", ".join(parts) + "."


def rate(text: str) -> float:
    try:
        number = float(text.removesuffix("/s"))
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise ArgumentTypeError(f"{text!r} is no number of dead letters a second: 500, or 500/s")
    return number
