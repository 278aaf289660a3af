from __future__ import annotations

from typing import Any, get_args

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.queue_set import queue_set
from django_pgqueue.management.acting import ActingCommand, errors_as_command_errors, has_queue
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Queue
from django_pgqueue.outcomes import Archive


class Command(ActingCommand):
    help = "Sets what the archive keeps of a queue's messages, while workers run."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the queue")
        parser.add_argument(
            "--archive",
            choices=get_args(Archive),
            required=True,
            help="what the archive keeps of its messages, unless their channel or the call has its own setting",
        )

    def handle(self, *, name: str, archive: Any, database: str | None, form: str, dry_run: bool, **_: Any) -> None:
        using = queue_database(database)
        if dry_run and not has_queue(name, using):
            raise CommandError(f"There is no queue {name!r}.")
        row = Queue.objects.using(using).filter(name=name).first()
        before = row.archive if row else "full"
        with errors_as_command_errors(using):
            if not dry_run:
                queue_set(name, archive=archive, using=using)
        facts = {"action": "set", "queue": name, "before": {"archive": before}, "after": {"archive": archive}}
        self.answer(form, f"{name}: archive {before} → {archive}", facts | {"dry_run": dry_run})
