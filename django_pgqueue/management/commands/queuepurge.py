from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.queue_purge import queue_purge
from django_pgqueue.management.acting import ActingCommand, errors_as_command_errors, has_queue
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Message

# Each batch is a transaction: locks are short, and purged messages stay purged.
BATCH_MESSAGES = 10_000


class Command(ActingCommand):
    help = "Moves the messages that wait in all channels of a queue to the archive. Leased messages stay."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("queue")

    def handle(self, *, queue: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        if not has_queue(queue, using):
            raise CommandError(f"There is no queue {queue!r}: it has neither a channel nor a row of its own.")
        with errors_as_command_errors(using):
            count = queue_waiting_count(queue, using) if dry_run else purge_queue(queue, using)
        facts = {"action": "purge", "queue": queue, "dry_run": dry_run, "messages": count}
        self.answer(form, f"{count} {'would be purged' if dry_run else 'purged'}", facts)


def queue_waiting_count(queue: str, using: str) -> int:
    """Return the number of messages that wait in the queue."""
    found = Message.objects.using(using).filter(channel__queue=queue)
    return found.exclude(status=Message.Status.LEASED).count()


def purge_queue(queue: str, using: str) -> int:
    """Purge as many messages as wait at the beginning, because producers may be faster than a purge. Returns how
    many."""
    left = queue_waiting_count(queue, using)
    count = 0
    while batch := queue_purge(queue=queue, limit=min(BATCH_MESSAGES, left - count), using=using):
        count += batch
    return count
