from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.management.acting import ActingCommand, errors_as_command_errors, has_queue
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Queue


class Command(ActingCommand):
    help = "Switches the events of a queue on or off. With events, PostgreSQL notifies listeners of each change."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["on", "off"])
        parser.add_argument("queue")

    def handle(self, *, action: str, queue: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        rows = Queue.objects.using(using)
        with errors_as_command_errors(using):
            if not has_queue(queue, using):
                raise CommandError(f"There is no queue {queue!r}: it has neither a channel nor a row of its own.")
            before = rows.filter(name=queue, events=True).exists()
            if not dry_run:
                rows.bulk_create([Queue(name=queue)], ignore_conflicts=True)
                rows.filter(name=queue).update(events=action == "on")
        was, word = "on" if before else "off", "would be" if dry_run else "are"
        facts = {"action": action, "queue": queue, "before": was, "after": action, "dry_run": dry_run}
        self.answer(form, f"queue {queue}: events were {was}, {word} {action}.", facts)
