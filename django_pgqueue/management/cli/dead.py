"""Redrive and delete dead letters, which ids or filters choose."""

from __future__ import annotations

from collections import Counter

from django.core.management.base import CommandError
from django.db.models import Count, QuerySet

import django_pgqueue as pgqueue
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.limits import parse_rate
from django_pgqueue.management.cli.choosing import (
    ALL,
    DEAD,
    DEAD_LOOKUPS,
    chosen_dead,
    id_parts,
    is_named,
    list_parts,
    require_choice,
)
from django_pgqueue.management.cli.options import MOST, option, payload, rate
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import clock
from django_pgqueue.models import DeadLetter
from django_pgqueue.outcomes import KEEP
from django_pgqueue.redaction import printable

# Each batch is a transaction: locks are short, and finished batches stay done.
REDRIVEN_LETTERS = 500
DELETED_LETTERS = 1_000
SHOWN_IDS = 20


def describe(run: VerbRun, found: QuerySet[DeadLetter], word: str) -> None:
    """Answer a dry run with the number of dead letters by reason and handler."""
    rows = list(found.values("reason", "handler").annotate(count=Count("id")).order_by("reason", "handler"))
    total, limit = sum(row["count"] for row in rows), run.given.limit
    count = total if limit is None else min(total, limit)
    lines = [f"{row['count']:>8}  {printable(row['reason'])}  {printable(row['handler'])}" for row in rows]
    run.show([*lines, f"{count} would be {word}"], matching=count, of=rows)


@verb(
    "redrive dead", "Enqueue dead letters again with all their attempts, the oldest first.",
    "--handler mail.send --rate 50/s", *DEAD, ALL, MOST,
    option("--rate", type=rate, help="so many become due in a time, such as 50/s (default: all at once)"),
    option("--payload", type=payload, default=KEEP, metavar="JSON", help="a new payload, for one id"),
    changes=True,
)  # fmt: skip
def redrive_dead(run: VerbRun) -> None:
    given = run.given
    require_choice(given, DEAD_LOOKUPS, "dead letters")
    if given.payload is not KEEP and len(given.ids) != 1:
        raise CommandError("--payload takes exactly one id.")
    found = chosen_dead(given, run.using)
    if run.dry_run:
        describe(run, found, "redriven")
        return
    done: set[int] = set()
    begun_at, interval = clock(run.using), parse_rate(given.rate).interval if given.rate else None
    for ids in id_parts(found, given.limit, REDRIVEN_LETTERS):
        places = range(len(done), len(done) + len(ids))
        times = [begun_at + place * interval for place in places] if interval else None
        try:
            done.update(pgqueue.redrive(ids, payload=given.payload, times=times, using=run.using))
        except PgQueueError as error:
            raise CommandError(f"{printable(str(error))}\n{len(done)} redriven before that.") from error
    run.answer(f"{len(done)} redriven", redriven=len(done))
    if left := sorted(set(given.ids) - done) if is_named(given) else []:
        shown = ", ".join(map(str, left[:SHOWN_IDS])) + (" …" if len(left) > SHOWN_IDS else "")
        raise CommandError(f"{len(left)} not redriven, no dead letters or redriven before: {shown}")


@verb(
    "delete dead", "Delete dead letters that were not redriven, for good.", "--reason unknown_handler --dry-run",
    *DEAD, ALL, MOST, changes=True, asks=True,
)  # fmt: skip
def delete_dead_letters(run: VerbRun) -> None:
    given = run.given
    require_choice(given, DEAD_LOOKUPS, "dead letters")
    found = chosen_dead(given, run.using)
    if run.dry_run:
        describe(run, found, "deleted")
        return
    # Messages that become dead letters from now on were not meant.
    found = found.filter(dead_at__lte=clock(run.using))
    named = list_parts(given.ids, DELETED_LETTERS) if is_named(given) else None
    parts = named or id_parts(found, given.limit, DELETED_LETTERS)
    became = Counter(outcome for ids in parts for outcome in pgqueue.delete_dead(ids, using=run.using).values())
    left = {outcome: count for outcome, count in sorted(became.items()) if outcome != "deleted"}
    text = "".join(f", {count} {outcome}" for outcome, count in left.items())
    run.answer(f"{became['deleted']} deleted{text}", deleted=became["deleted"], left=left)
    if left:
        raise CommandError("Not all of them were deleted: see the counts above.")
