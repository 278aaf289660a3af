"""Put dead letters back into their queues: those that a condition in Spark SQL chooses, each once.

Each becomes a new message with all its attempts, at once and as a whole with thousands of others. Letters that were
redriven before, are gone, or are refused by their channel, are counted. With --dry-run nothing is changed.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from django_pgqueue.spark import arguments
from django_pgqueue.spark.export.register import check_identity
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.redrive.batch import Tally


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    arguments.add_source(parser)
    parser.add_argument(
        "--where",
        required=True,
        metavar="SQL",
        help="the condition that chooses dead letters, in Spark SQL over their columns: "
        "\"reason = 'failed' AND handler = 'mail.send'\"",
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
    parser.add_argument("--rate", type=rate, metavar="N/s", help="the most letters per second (default: no limit)")
    parser.add_argument("--dry-run", action="store_true", help="only count")
    arguments.add_engine(parser)


def run(args: Namespace) -> int:
    """Redrive the chosen dead letters, or count them with --dry-run. Returns 1 if letters were refused, or else 0."""
    source = arguments.source_of(args)
    # This line is printed before Spark has started.
    source.connect().close()
    lake = None
    if args.lake is not None:
        lake = Lake.open(args.lake)
        check_identity(lake, source.identity(), adopt=False)
    with arguments.engine("redrive", args) as spark:
        from django_pgqueue.spark.redrive.job import put_back
        from django_pgqueue.spark.redrive.letters import dead_letters, dead_letters_of

        if lake is None:
            letters = dead_letters(spark, source, args.where, args.set_payload)
        else:
            letters = dead_letters_of(spark, lake, args.where, args.set_payload)
        tally = put_back(letters, source, channel=args.channel, rate=args.rate, dry_run=args.dry_run)
    print(tally_text(tally, dry_run=args.dry_run))
    for reason, count in sorted(tally.reasons.items(), key=lambda item: -item[1]):
        print(f"{count:,} refused: {reason}", file=sys.stderr)
    return 1 if tally.refused else 0


def tally_text(tally: Tally, *, dry_run: bool) -> str:
    """Return the counts in words."""
    parts = [
        f"{tally.selected:,} dead letters chosen",
        f"{tally.redriven:,} {'would be ' if dry_run else ''}redriven",
        f"{tally.already:,} were redriven before",
        f"{tally.gone:,} are gone",
        f"{tally.refused:,} {'would be ' if dry_run else ''}refused",
    ]
    return ", ".join(parts) + "."


def rate(text: str) -> float:
    """Read letters per second: ``500`` or ``500/s``. Raises ArgumentTypeError."""
    try:
        number = float(text.removesuffix("/s"))
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise ArgumentTypeError(f"{text!r} is no number of dead letters a second: 500, or 500/s")
    return number
