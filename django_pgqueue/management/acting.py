"""Hold what the commands that change something share: their options, their answers, and types of arguments."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.models import Channel, Queue
from django_pgqueue.redaction import printable
from django_pgqueue.sql.call import call, primary

FORGIVEN = ["its debt is forgiven"]


class ActingCommand(BaseCommand):
    """Run a command with ``--dry-run``, ``--format`` and ``--database``. Exit status 0: all was done; 1: not all, or
    nothing."""

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_own(parser)
        parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
        parser.add_argument(
            "--format", dest="form", choices=["text", "json"], default="text", help="json: an object in one line"
        )
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def add_own(self, parser: CommandParser) -> None:
        """Add the options of the command itself."""
        raise NotImplementedError

    def answer(self, form: str, text: str, facts: dict[str, Any]) -> None:
        """Write the answer: ``text``, or with the format json ``facts`` as an object in one line."""
        self.stdout.write(json.dumps({"version": 1, **facts}, default=str) if form == "json" else printable(text))


def add_forgive(parser: CommandParser) -> None:
    """Add --forgive to a command that sets a rate."""
    text = "end the debt of the rate, which messages have left that cost more than its burst"
    parser.add_argument("--forgive", action="store_true", help=text)


@contextmanager
def errors_as_command_errors(using: str, *, done: str = "") -> Iterator[None]:
    """Raise CommandError for an error of the queue or the database. ``done``: text about the part that was done
    before."""
    try:
        yield
    except PgQueueError as error:
        raise CommandError(printable(f"{error}{done}")) from error
    except Error as error:
        raise CommandError(f"The database {using!r} refuses: {primary(error)}{done}") from error


def has_queue(name: str, using: str) -> bool:
    """Return whether the queue has a channel, or a row of its own."""
    channels, queues = Channel.objects.using(using), Queue.objects.using(using)
    return channels.filter(queue=name).exists() or queues.filter(name=name).exists()


def clock(using: str) -> datetime:
    """Return the time of the database, because the clock of this machine may be wrong."""
    now: datetime = call(using, "SELECT clock_timestamp()")[0][0]
    return now


def at_least_one(text: str) -> int:
    """Return a whole number. Raises ArgumentTypeError below 1."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is not at least 1")
    return number


def seconds(text: str) -> timedelta:
    """Return a number of seconds as a timedelta. Raises ArgumentTypeError unless it is positive, up to ten years."""
    value = float(text)
    if not 0 < value <= 3660 * 86_400:
        raise ArgumentTypeError(f"{text} seconds are not between 0 and ten years")
    return timedelta(seconds=value)


def rate(text: str) -> float:
    """Return a number per second. Raises ArgumentTypeError outside of 0.001 to 100,000."""
    value = float(text)
    if not 0.001 <= value <= 100_000:
        raise ArgumentTypeError(f"{text} a second is not between 0.001 and 100000")
    return value


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


def count_or_none(text: str) -> int | str:
    """Return a whole number of at least 1, or "none". Raises ArgumentTypeError."""
    return "none" if text == "none" else at_least_one(text)


def seconds_or_none(text: str) -> Any:
    """Return a number of seconds as a timedelta, or "none". Raises ArgumentTypeError."""
    return "none" if text == "none" else seconds(text)
