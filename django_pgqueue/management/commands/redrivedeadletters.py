from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.db.models import Count

from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.redrive import redrive
from django_pgqueue.models import DeadLetter
from django_pgqueue.redaction import printable

FILTERS = ("reason", "handler", "queue", "channel")
# A transaction each: short locks, and what is done stays done.
BATCH = 500


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is not at least 1")
    return number


class Command(BaseCommand):
    help = "Enqueues dead letters again that were not redriven yet, oldest first, with all attempts."

    def add_arguments(self, parser: CommandParser) -> None:
        for name in FILTERS:
            parser.add_argument(f"--{name}", help=f"only those with this {name}")
        parser.add_argument("--limit", type=at_least_one, help="at most so many (default: all)")
        parser.add_argument("--dry-run", action="store_true", help="only say how many there are")
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(self, *, database: str | None, limit: int | None, dry_run: bool, **given: Any) -> None:
        using = alias(database)
        if using not in connections:
            raise CommandError(f"There is no database {using!r} in DATABASES. Choose one of {', '.join(connections)}.")
        wanted = {name: given[name] for name in FILTERS if given[name] is not None}
        found = DeadLetter.objects.using(using).filter(redriven_at=None, **wanted)
        if dry_run:
            self._describe(found, limit)
            return
        count, last = 0, 0
        while limit is None or count < limit:
            size = BATCH if limit is None else min(BATCH, limit - count)
            # By id from the last one on: a dead letter that cannot be redriven does not come up again and again.
            ids = list(found.filter(id__gt=last).order_by("id").values_list("id", flat=True)[:size])
            if not ids:
                break
            last = ids[-1]
            try:
                count += len(redrive(ids, using=using))
            except PgQueueError as error:
                raise CommandError(f"{printable(str(error))}\n{count} redriven before that.") from error
        self.stdout.write(f"{count} redriven")

    def _describe(self, found: Any, limit: int | None) -> None:
        for row in found.values("reason", "handler").annotate(count=Count("id")).order_by("reason", "handler"):
            self.stdout.write(f"{row['count']:>8}  {printable(row['reason'])}  {printable(row['handler'])}")
        count = found.count()
        self.stdout.write(f"{count if limit is None else min(count, limit)} would be redriven")
