from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.delete_dead import delete_dead
from django_pgqueue.management.acting import clock, errors_as_command_errors
from django_pgqueue.management.database import queue_database
from django_pgqueue.management.dead_letters import FILTERS, DeadLettersCommand, id_parts

# Each batch is a transaction: locks are short, and finished batches stay done.
BATCH_LETTERS = 1_000


class Command(DeadLettersCommand):
    help = "Deletes dead letters that were not redriven, for good."

    def add_own(self, parser: CommandParser) -> None:
        super().add_own(parser)
        parser.add_argument("--all", action="store_true", help="all dead letters, in place of ids and filters")

    def handle(self, *, database: str | None, limit: int | None, dry_run: bool, form: str, **given: Any) -> None:
        using = queue_database(database)
        is_filtered = any(given[name] is not None for name in FILTERS)
        if (is_filtered or bool(given["ids"])) == given["all"]:
            raise CommandError("Choose the dead letters: give ids or filters, or --all.")
        found = self.chosen(given, using)
        if dry_run:
            self.describe(found, limit, form, "deleted")
            return
        became: Counter[str] = Counter()
        with errors_as_command_errors(using):
            # Messages that become dead letters from now on were not meant.
            found = found.filter(dead_at__lte=clock(using))
            named = given["ids"] and not is_filtered and limit is None
            for ids in in_parts(given["ids"]) if named else id_parts(found, limit, BATCH_LETTERS):
                became += Counter(delete_dead(ids, using=using).values())
        left = {outcome: count for outcome, count in sorted(became.items()) if outcome != "deleted"}
        text = "".join(f", {count} {outcome}" for outcome, count in left.items())
        facts = {"dry_run": False, "deleted": became["deleted"], "left": left}
        self.answer(form, f"{became['deleted']} deleted{text}", facts)
        if left:
            raise CommandError("Not all of them were deleted: see the counts above.")


def in_parts(ids: list[int]) -> Iterator[list[int]]:
    """Return the ids in parts, also those that do not exist or were redriven: the answer reports each named id."""
    unique = sorted(set(ids))
    return (unique[start : start + BATCH_LETTERS] for start in range(0, len(unique), BATCH_LETTERS))
