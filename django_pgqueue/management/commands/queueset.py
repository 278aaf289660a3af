from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any, get_args

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.queue_set import queue_set
from django_pgqueue.management.acting import FORGIVEN, ActingCommand, add_forgive, errors_as_command_errors, has_queue
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Queue
from django_pgqueue.models.queue import Fairness
from django_pgqueue.outcomes import KEEP, Archive

SETTINGS = ("archive", "retention", "dead_letter_retention", "max_concurrency", "rate", "fairness", "max_share")


def count(text: str) -> int | None:
    """Return a whole number; None for "none"."""
    return None if text == "none" else int(text)


def part(text: str) -> float | None:
    """Return a part of a whole; None for "none"."""
    return None if text == "none" else float(text)


def rate(text: str) -> str | None:
    """Return a rate as it was given; None for "none". queue_set reads it."""
    return None if text == "none" else text


def days(text: str) -> timedelta | None:
    """Return a number of days as a timedelta; None for "none". Raises ArgumentTypeError unless it is positive."""
    if text == "none":
        return None
    number = float(text)
    if not 0 < number <= 365_000:
        raise ArgumentTypeError(f"{text} days are not between 0 and 365000")
    return timedelta(days=number)


def rate_text(queue: Queue) -> str | None:
    """Return the rate of a queue in words."""
    if queue.release_interval is None:
        return None
    return f"1 per {queue.release_interval} burst {queue.release_burst}"


class Command(ActingCommand):
    help = "Sets the limits of a queue, what the archive keeps of its messages, and for how long, while workers run."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the queue")
        parser.add_argument(
            "--archive",
            choices=get_args(Archive),
            default=KEEP,
            help="what the archive keeps of its messages, unless their channel or the call has its own setting",
        )
        parser.add_argument(
            "--retention",
            type=days,
            default=KEEP,
            metavar="DAYS",
            help="how long the archive keeps its messages; none: as the settings say",
        )
        parser.add_argument(
            "--dead-letter-retention",
            type=days,
            default=KEEP,
            metavar="DAYS",
            help="how long its dead letters are kept; none: as the settings say",
        )
        parser.add_argument(
            "--max-concurrency",
            type=count,
            default=KEEP,
            metavar="N",
            help="messages of all its channels that may be leased at the same time; none lifts the limit",
        )
        parser.add_argument(
            "--rate",
            type=rate,
            default=KEEP,
            help="deliveries in a time, such as 10/m or '100/s burst 50'; none lifts the limit",
        )
        parser.add_argument(
            "--fairness",
            choices=Fairness.values,
            default=KEEP,
            help="turns: round robin; share: the same, for channels below their share of the leases",
        )
        parser.add_argument(
            "--max-share",
            type=part,
            default=KEEP,
            metavar="PART",
            help="the part of the workers' slots that one channel may hold, above 0 and up to 1; none lifts the limit",
        )
        add_forgive(parser)

    def handle(self, *, name: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        after = {key: given[key] for key in SETTINGS if given[key] is not KEEP}
        forgive: bool = given["forgive"]
        if not after and not forgive:
            raise CommandError("Give a setting, such as --archive or --max-concurrency.")
        if dry_run and not has_queue(name, using):
            raise CommandError(f"There is no queue {name!r}.")
        row = Queue.objects.using(using).filter(name=name).first() or Queue(name=name)
        before = {key: rate_text(row) if key == "rate" else getattr(row, key) for key in after}
        with errors_as_command_errors(using):
            if not dry_run:
                queue_set(name, **after, forgive=forgive, using=using)
        changes = ", ".join([f"{key} {before[key]} → {after[key]}" for key in after] + FORGIVEN * forgive)
        facts = {"action": "set", "queue": name, "before": before, "after": after, "dry_run": dry_run}
        facts |= {"forgive": True} if forgive else {}
        self.answer(form, f"{name}: {changes}", facts)
