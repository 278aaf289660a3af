from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.redrive import redrive
from django_pgqueue.management.acting import clock, errors_as_command_errors, payload, rate
from django_pgqueue.management.database import queue_database
from django_pgqueue.management.dead_letters import FILTERS, DeadLettersCommand, id_parts
from django_pgqueue.outcomes import KEEP
from django_pgqueue.redaction import printable

# Each batch is a transaction: locks are short, and finished batches stay done.
BATCH_LETTERS = 500
SHOWN_IDS = 20


class Command(DeadLettersCommand):
    help = "Enqueues dead letters that were not redriven yet, oldest first, again with all their attempts."

    def add_own(self, parser: CommandParser) -> None:
        super().add_own(parser)
        parser.add_argument(
            "--rate", type=rate, metavar="N", help="messages that become due in a second (default: all at once)"
        )
        parser.add_argument("--payload", type=payload, default=KEEP, metavar="JSON", help="a new payload, for one id")

    def handle(self, *, database: str | None, limit: int | None, dry_run: bool, form: str, **given: Any) -> None:
        using = queue_database(database)
        if given["payload"] is not KEEP and len(given["ids"]) != 1:
            raise CommandError("--payload takes exactly one id.")
        found = self.chosen(given, using)
        if dry_run:
            self.describe(found, limit, form, "redriven")
            return
        done: set[int] = set()
        with errors_as_command_errors(using):
            begun_at = clock(using)
            for ids in id_parts(found, limit, BATCH_LETTERS):
                times = paced(begun_at, given["rate"], len(done), len(ids))
                try:
                    done.update(redrive(ids, payload=given["payload"], times=times, using=using))
                except PgQueueError as error:
                    raise CommandError(f"{printable(str(error))}\n{len(done)} redriven before that.") from error
        self.answer(form, f"{len(done)} redriven", {"dry_run": False, "redriven": len(done)})
        is_named = given["ids"] and limit is None and all(given[name] is None for name in FILTERS)
        if left := sorted(set(given["ids"]) - done) if is_named else []:
            raise CommandError(
                f"{len(left)} not redriven, no dead letters or redriven before: {', '.join(map(str, left[:SHOWN_IDS]))}"
                f"{'' if len(left) <= SHOWN_IDS else ' …'}"
            )


def paced(begun_at: datetime, per_second: float | None, before: int, count: int) -> list[datetime] | None:
    """Return when each message is due, or None without a rate. ``before``: the number of messages before these."""
    if per_second is None:
        return None
    return [begun_at + timedelta(seconds=(before + n) / per_second) for n in range(count)]
