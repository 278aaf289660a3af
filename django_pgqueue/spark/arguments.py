"""Arguments and settings that several commands share."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from django_pgqueue.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from django_pgqueue.spark.source import Source


def day(text: str) -> date:
    """Read a day such as 2026-11-21. Raises ArgumentTypeError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day, such as 2026-11-21") from None


def at_least_one(text: str) -> int:
    """Read a whole number from 1 on. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def add_since(parser: ArgumentParser, why: str) -> None:
    """Add the option for the first day: ``args.since``, a date. ``why``: the end of its help text."""
    parser.add_argument(
        "--since",
        type=day,
        default=date.min,
        metavar="DAY",
        help=f"only this day and later ones, as 2026-11-21{why}",
    )


def add_lake(parser: ArgumentParser) -> None:
    """Add the option for the lake's folder: ``args.lake``, a Path."""
    given = os.environ.get("PGQUEUE_LAKE")
    parser.add_argument(
        "--lake",
        type=Path,
        default=given,
        required=not given,
        metavar="PATH",
        help="the folder of the lake (default: the variable PGQUEUE_LAKE)",
    )


def add_source(parser: ArgumentParser) -> None:
    """Add the option for the database: ``args.source``, text for `source_of` or `named_source`."""
    parser.add_argument(
        "--source",
        metavar="DSN",
        help="the database, as libpq takes it: a URI, keywords and values, or service=NAME (default: the variable "
        "PGQUEUE_SOURCE, else PGHOST, PGSERVICE and so on). Others can see what is on a command line: a password is "
        "better in one of these variables or in a password file",
    )


def source_of(args: Namespace) -> Source:
    """Return the database that ``args.source`` names, or else the environment. Raises PipelineError."""
    from django_pgqueue.spark.source import Source

    return Source.from_environment() if args.source is None else Source.parse(args.source)


def named_source(args: Namespace) -> Source | None:
    """Return the database that ``args.source`` or PGQUEUE_SOURCE names; None if neither is set. Raises
    PipelineError.
    """
    from django_pgqueue.spark.source import VARIABLE

    return source_of(args) if args.source is not None or os.environ.get(VARIABLE) else None


def add_engine(parser: ArgumentParser) -> None:
    """Add the options of the Spark session: ``args.master``, ``args.memory``, ``args.conf``; see `engine`."""
    parser.add_argument("--master", metavar="URL", help="Spark's address of a cluster (default: this machine)")
    parser.add_argument("--memory", default="1g", metavar="SIZE", help="the heap of Spark's driver (default: 1g)")
    parser.add_argument(
        "--conf",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark, such as spark.executor.memory=2g; may be repeated",
    )


def add_sla(parser: ArgumentParser) -> None:
    """Add the option for the promises of queues and channels: ``args.sla``, texts for `parse_sla`."""
    parser.add_argument(
        "--sla",
        action="append",
        default=[],
        metavar="NAME=DURATION",
        help="how long messages of a queue, or of QUEUE/CHANNEL, may take from enqueue to the end: default=30s; "
        "may be repeated",
    )


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ArgumentTypeError(f"KEY=VALUE is wanted, not {text!r}")
    return key, value


@contextmanager
def engine(name: str, args: Namespace) -> Iterator[SparkSession]:
    """Open the Spark session that these arguments ask for. Raises PipelineError."""
    with session(f"pgqueue {name}", args.master, args.memory, dict(args.conf)) as spark:
        yield spark
