from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.queue_drop import QueueDropped, queue_drop
from django_pgqueue.management.acting import ActingCommand, errors_as_command_errors, has_queue
from django_pgqueue.management.commands.queuepurge import BATCH_MESSAGES, queue_waiting_count
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Channel, Message, Schedule


class Command(ActingCommand):
    help = (
        "Drops a queue with its channels and schedules. It refuses while workers hold leases, or while messages wait "
        "and --purge is not given. The archive and the dead letters stay."
    )

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("queue")
        parser.add_argument("--purge", action="store_true", help="move the messages that wait to the archive as purged")

    def handle(self, *, queue: str, purge: bool, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        if not has_queue(queue, using):
            raise CommandError(f"There is no queue {queue!r}: it has neither a channel nor a row of its own.")
        counts = {"messages": 0, "channels": 0, "schedules": 0}
        if dry_run:
            step = foreseen(queue, purge, using)
            add(counts, step)
        else:
            with errors_as_command_errors(using):
                step = self.drop(queue, purge, counts, using)
        word = "would be dropped" if dry_run else "is dropped" if step.done else "is not dropped yet"
        text = (
            f"queue {queue} {word}: {counts['messages']} messages purged, {counts['channels']} channels released, "
            f"{counts['schedules']} schedules deleted"
        )
        self.answer(form, text, {"action": "drop", "queue": queue, "dry_run": dry_run, "done": step.done, **counts})
        if not step.done:
            raise CommandError("Other transactions hold messages, channels or schedules of the queue: try again.")

    def drop(self, queue: str, purge: bool, counts: dict[str, int], using: str) -> QueueDropped:
        """Drop in steps until the queue is gone, or a step changed nothing because other transactions hold the rest."""
        while True:
            step = queue_drop(queue=queue, purge=purge, limit=BATCH_MESSAGES, using=using)
            add(counts, step)
            if step.done or step.blocked:
                return step


def add(counts: dict[str, int], step: QueueDropped) -> None:
    """Add the counts of one step."""
    for name in counts:
        counts[name] += getattr(step, name)


def foreseen(queue: str, purge: bool, using: str) -> QueueDropped:
    """Return what a drop would do now. Raises CommandError if it would be refused."""
    held = Message.objects.using(using).filter(channel__queue=queue, status=Message.Status.LEASED).count()
    left = queue_waiting_count(queue, using)
    if held or (left and not purge):
        raise CommandError(f"Queue {queue!r} holds {held} leased and {left} waiting messages: a drop would be refused.")
    channels = Channel.objects.using(using).filter(queue=queue, released_at=None).count()
    schedules = Schedule.objects.using(using).filter(queue=queue).count()
    return QueueDropped(True, left, channels, schedules)
