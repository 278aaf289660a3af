"""Arguments and settings that several commands share."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import VARIABLE, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d{1,8}(?:\.\d{1,8})?)\s*(ms|s|m|h|d|)")


def day(text: str) -> date:
    """Read a day such as 2026-11-21. Raises ArgumentTypeError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day, such as 2026-11-21") from None


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers between these. The reader raises ArgumentTypeError."""

    def read(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least or (most is not None and int(text) > most):
            upto = "on" if most is None else f"to {most}"
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least} {upto}")
        return int(text)

    return read


def duration(text: str) -> timedelta:
    """Read a duration such as 30s, 5m or 1.5h. Raises ArgumentTypeError."""
    match = DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ArgumentTypeError(f"{text!r} is not a duration such as 30s, 10m or 1.5h")
    return timedelta(seconds=float(match[1]) * UNITS[match[2] or "s"])


def sla(text: str) -> tuple[str, timedelta]:
    """Read a promise such as default=30s or default/tenant-7=5m. Raises ArgumentTypeError."""
    # A name may contain "=".
    name, _, limit = text.rpartition("=")
    if not name:
        raise ArgumentTypeError(f"QUEUE=30s or QUEUE/CHANNEL=5m is wanted, not {text!r}")
    return name, duration(limit)


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
    return Source.from_environment() if args.source is None else Source.parse(args.source)


def named_source(args: Namespace) -> Source | None:
    """Return the database that ``args.source`` or PGQUEUE_SOURCE names; None if neither is set. Raises
    PipelineError.
    """
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
    """Add the option for the promises of queues and channels: ``args.sla``, names with durations."""
    parser.add_argument(
        "--sla",
        type=sla,
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


def engine(name: str, args: Namespace) -> AbstractContextManager[SparkSession]:
    """Open the Spark session that these arguments ask for. Raises PipelineError."""
    return session(f"pgqueue {name}", args.master, args.memory, dict(args.conf))
