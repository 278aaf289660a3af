"""Hold the options that verbs share, and the types of their values."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.limits import parse_rate
from django_pgqueue.management.cli.verbs import Option
from django_pgqueue.outcomes import KEEP

UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([smhd]?)", re.ASCII)
LONGEST = timedelta(days=3660)


def option(*flags: str, **more: Any) -> Option:
    """Return an option or an argument, as argparse takes it."""
    return lambda parser: parser.add_argument(*flags, **more)


def setting(flag: str, **more: Any) -> Option:
    """Return an option for a setting, which stays as it is without the option."""
    return option(flag, default=KEEP, **more)


def one_of(*options: Option, required: bool = False) -> Option:
    """Return options that exclude each other."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for each in options:
            each(group)

    return add


def duration(text: str) -> timedelta:
    """Return ``90``, ``90s``, ``15m``, ``2h`` or ``7d`` as a timedelta. Raises ArgumentTypeError unless it is positive,
    up to ten years."""
    found = duration_or_zero(text)
    if not found:
        raise ArgumentTypeError(f"{text} is not more than zero")
    return found


def duration_or_zero(text: str) -> timedelta:
    """Return a duration, or zero, as a timedelta. Raises ArgumentTypeError."""
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise ArgumentTypeError(f"{text} is not a duration: give seconds, or 90s, 15m, 2h, 7d")
    value = float(found[1]) * UNIT_SECONDS[found[2]]
    if value > LONGEST.total_seconds():
        raise ArgumentTypeError(f"{text} is more than ten years")
    return timedelta(seconds=value)


def retention(text: str) -> timedelta:
    """Return a duration that names its unit: a bare number might be meant as days. Raises ArgumentTypeError."""
    if text.strip().replace(".", "", 1).isdigit():
        raise ArgumentTypeError(f"{text} has no unit: give {text}d for days")
    return duration(text)


def whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers in these bounds."""

    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise ArgumentTypeError(f"{text} is not at least {least}")
        if number > most:
            raise ArgumentTypeError(f"{text} is more than {most:,}")
        return number

    parse.__name__ = "number"
    return parse


positive = whole(1)


def or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser that also takes ``none``, which lifts a limit."""

    def parse_or_none(text: str) -> Any:
        return None if text == "none" else parse(text)

    parse_or_none.__name__ = parse.__name__
    return parse_or_none


def rate(text: str) -> str:
    """Return a rate as it was given. Raises ArgumentTypeError."""
    try:
        parse_rate(text)
    except InvalidMessage as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def moment(text: str) -> datetime:
    """Return an aware datetime. Raises ArgumentTypeError for any other text."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or timezone.is_naive(found):
        raise ArgumentTypeError(f"{text} is not a time with an offset, such as 2030-01-31T06:00+01:00")
    return found


def payload(text: str) -> Any:
    """Return JSON as a value. Raises ArgumentTypeError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"the payload is not JSON: {error}") from error


def headers(text: str) -> dict[str, Any] | None:
    """Return a JSON object as a dict, or None for null. Raises ArgumentTypeError."""
    found = payload(text)
    if found is not None and not isinstance(found, dict):
        raise ArgumentTypeError("headers are a JSON object")
    return found


DATABASE = option("--database", metavar="ALIAS", help="alias of the queue's database (default: as enqueue does)")
JSON = option("--json", action="store_true", help="an object in one line, for programs")
DRY_RUN = option("--dry-run", action="store_true", help="only show what would be done")
YES = option("--yes", action="store_true", help="do not ask, on a terminal")
NAME = option("name", metavar="NAME")
IDS = option("ids", nargs="*", type=positive, metavar="ID", help="only these ids")
QUEUE = option("--queue", metavar="NAME", help="only this queue")
CHANNEL = option("--channel", metavar="NAME", help="only channels of this name")
HANDLER = option("--handler", metavar="NAME", help="only this handler")
OF_QUEUE = option("--queue", metavar="NAME", default="default", help="the queue of the channel (default: default)")
MOST = option("--limit", type=positive, metavar="N", help="at most so many, the oldest first (default: all)")
REASON = option("--reason", default="", metavar="TEXT", help="kept with it, and shown where it is shown")
FORGIVE = option(
    "--forgive", action="store_true",
    help="end the debt of the rate, which messages have left that cost more than its burst",
)  # fmt: skip
CONCURRENCY = setting(
    "--max-concurrency", type=or_none(positive), metavar="N",
    help="messages that may be leased at the same time; none lifts the limit",
)  # fmt: skip
RATE = setting(
    "--rate", type=or_none(rate), help="so many in a time: 10/m, 1/30s, '5/s burst 20'; none lifts the limit"
)
