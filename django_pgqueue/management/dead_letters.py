"""Hold what the commands for dead letters share: how they choose, count and batch them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Count, QuerySet

from django_pgqueue.management.acting import ActingCommand, at_least_one
from django_pgqueue.models import DeadLetter
from django_pgqueue.redaction import printable

FILTERS = ("reason", "handler", "queue", "channel")


class DeadLettersCommand(ActingCommand):
    """Run a command on dead letters that ids or filters choose."""

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("ids", nargs="*", type=at_least_one, metavar="ID", help="these dead letters")
        for name in FILTERS:
            parser.add_argument(f"--{name}", help=f"only those with this {name}")
        parser.add_argument("--limit", type=at_least_one, help="the most dead letters (default: all)")

    def chosen(self, given: dict[str, Any], using: str) -> QuerySet[DeadLetter]:
        """Return the chosen dead letters that were not redriven yet."""
        wanted = {name: given[name] for name in FILTERS if given[name] is not None}
        if given["ids"]:
            wanted["id__in"] = given["ids"]
        return DeadLetter.objects.using(using).filter(redriven_at=None, **wanted)

    def describe(self, found: QuerySet[DeadLetter], limit: int | None, form: str, act: str) -> None:
        """Answer a dry run with the number of dead letters by reason and handler."""
        rows = list(found.values("reason", "handler").annotate(count=Count("id")).order_by("reason", "handler"))
        total = sum(row["count"] for row in rows)
        count = total if limit is None else min(total, limit)
        if form == "text":
            for row in rows:
                self.stdout.write(f"{row['count']:>8}  {printable(row['reason'])}  {printable(row['handler'])}")
        self.answer(form, f"{count} would be {act}", {"dry_run": True, "matching": count, "of": rows})


def id_parts(found: QuerySet[DeadLetter], limit: int | None, size: int) -> Iterator[list[int]]:
    """Yield ids in parts, in order. Each part begins after the last id, so that a dead letter that stays is not read
    again."""
    left, last = limit, 0
    while left is None or left > 0:
        most = size if left is None else min(size, left)
        ids = list(found.filter(id__gt=last).order_by("id").values_list("id", flat=True)[:most])
        if not ids:
            return
        yield ids
        last, left = ids[-1], None if left is None else left - len(ids)
