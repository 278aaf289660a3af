from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any, get_args

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.queue_set import queue_set
from django_pgqueue.management.acting import ActingCommand, errors_as_command_errors, has_queue
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Queue
from django_pgqueue.outcomes import KEEP, Archive


def days(text: str) -> timedelta | None:
    """Return a number of days as a timedelta; None for "none". Raises ArgumentTypeError unless it is positive."""
    if text == "none":
        return None
    number = float(text)
    if not 0 < number <= 365_000:
        raise ArgumentTypeError(f"{text} days are not between 0 and 365000")
    return timedelta(days=number)


class Command(ActingCommand):
    help = "Sets what the archive keeps of a queue's messages, and for how long, while workers run."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the queue")
        parser.add_argument(
            "--archive",
            choices=get_args(Archive),
            default=KEEP,
            help="what the archive keeps of its messages, unless their channel or the call has its own setting",
        )
        parser.add_argument(
            "--retention", type=days, default=KEEP, metavar="DAYS", help="how long the archive keeps its messages; none"
        )
        parser.add_argument(
            "--dead-letter-retention",
            type=days,
            default=KEEP,
            metavar="DAYS",
            help="how long its dead letters are kept; none: as the settings say",
        )

    def handle(self, *, name: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        names = ("archive", "retention", "dead_letter_retention")
        after = {key: given[key] for key in names if given[key] is not KEEP}
        if not after:
            raise CommandError("Give --archive, --retention or --dead-letter-retention.")
        if dry_run and not has_queue(name, using):
            raise CommandError(f"There is no queue {name!r}.")
        row = Queue.objects.using(using).filter(name=name).first() or Queue(name=name)
        before = {key: getattr(row, key) for key in after}
        with errors_as_command_errors(using):
            if not dry_run:
                queue_set(name, **after, using=using)
        changes = ", ".join(f"{key} {before[key]} → {after[key]}" for key in after)
        facts = {"action": "set", "queue": name, "before": before, "after": after, "dry_run": dry_run}
        self.answer(form, f"{name}: {changes}", facts)
