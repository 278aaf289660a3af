"""Update the tables from the declarations in code, when a worker starts and after migrate."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from django_pgqueue import codecs, handlers, schedules
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.jsonb import from_json, to_json
from django_pgqueue.maintenance.declared_breakers import sync_breakers
from django_pgqueue.maintenance.declared_limits import sync_limits
from django_pgqueue.models import Schedule
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.sql.call import alias

logger = logging.getLogger("django_pgqueue.maintenance")


@dataclass(frozen=True, slots=True)
class SyncCounts:
    """Hold the numbers of schedules that were added, changed, and marked as removed."""

    added: int
    changed: int
    removed: int


def sync_declared(using: str | None = None) -> None:
    """Write the schedules, shared limits and breakers that code declares to the database.

    ``using``: database alias; default: the queue's. It calls sync_limits(), sync_breakers() and sync_schedules().
    """
    sync_limits(using)
    sync_breakers(using)
    sync_schedules(using)


def sync_schedules(using: str | None = None) -> SyncCounts:
    """Write the schedules that code declares to the database, except ``enabled`` of an existing one.

    ``using``: database alias; default: the queue's. A schedule that code no longer declares is marked as removed and
    does not fire; rows that were made by hand are unchanged. An invalid declaration is logged, and changes nothing.
    Several processes may call it at the same time.
    """
    rows = Schedule.objects.using(alias(using))
    collected = schedules.collect_declared_schedules()
    wanted, problems = to_rows(collected.found)
    for problem in (*collected.problems, *problems):
        logger.error("a schedule in code is left out: %s", problem, extra={"event": "schedule_invalid"})
    with transaction.atomic(using=rows.db):
        known = {row.name: row for row in rows.filter(name__in=wanted)}
        # In the order of names, so that two workers that start together never wait for each other in a circle.
        missing = [Schedule(name=name, **values) for name, values in sorted(wanted.items()) if name not in known]
        for row in missing:
            row.seal(rows.db)
        rows.bulk_create(missing, ignore_conflicts=True)
        changed = sum(update_row(rows, row, wanted[name]) for name, row in sorted(known.items()))
        removed = mark_removed(rows, collected.found)
    counts = SyncCounts(len(missing), changed, removed)
    if counts != SyncCounts(0, 0, 0):
        logger.info(
            "schedules in code: %d added, %d changed, %d removed", counts.added, counts.changed, counts.removed,
            extra={"event": "schedules_synced"},
        )  # fmt: skip
    return counts


def to_rows(found: Mapping[str, schedules.Declared]) -> tuple[dict[str, dict[str, Any]], list[PgQueueError]]:
    """Return the columns of each valid declaration by name, and the errors of the invalid ones."""
    wanted, problems = {}, []
    for name, item in found.items():
        try:
            wanted[name] = to_row(item)
        except PgQueueError as error:
            problems.append(error)
    return wanted, problems


def to_row(item: schedules.Declared) -> dict[str, Any]:
    """Return the columns of a declaration. Raises PgQueueError if it has no handler or is not JSON."""
    handler = handlers.find(item.handler_name)
    values = {**item.values, "handler": item.handler_name, "declared_in": item.module}
    for name in ("payload", "headers"):
        # The row is compared with the database, where a tuple is a list.
        values[name] = from_json(to_json(values[name], f"{name} of the schedule {item.row_name}"))
    values["queue"] = values["queue"] or (handler.queue if handler else "default")
    return values


def update_row(rows: QuerySet[Schedule], row: Schedule, values: dict[str, Any]) -> bool:
    """Update the columns of ``row`` that differ from ``values``, except ``enabled``. Returns whether any did.

    A schedule that was marked as removed is declared again, so the mark is cleared.
    """
    differing = {name: value for name, value in values.items() if name != "enabled" and getattr(row, name) != value}
    if codecs.current() is not None:
        if is_stored(row, values, rows.db):
            differing.pop("payload", None)
        else:
            # Encrypted again for the channel that it goes to; the same text never comes twice.
            place = row.place(rows.db, values["queue"], values["channel"])
            differing["payload"] = codecs.sealed_value(values["payload"], place)
    if row.removed_at is not None:
        differing["removed_at"] = None
    return bool(differing) and bool(rows.filter(pk=row.pk).update(**differing))


def is_stored(row: Schedule, values: Mapping[str, Any], using: str) -> bool:
    """Return whether the row has the declared payload, encoded for the declared channel."""
    if (row.queue, row.channel) != (values["queue"], values["channel"]):
        return False
    try:
        same: bool = row.opened_payload(using) == values["payload"]
    except codecs.FAILURES:
        return False
    return same and (values["payload"] is None or codecs.is_sealed(row.payload))


def mark_removed(rows: QuerySet[Schedule], declared: Collection[str]) -> int:
    """Mark schedules as removed that their module no longer declares. Returns how many.

    ``declared``: the names that code declares. Only schedules of modules that this process has loaded are marked,
    because another worker may have more apps, or a module that cannot be imported here.
    """
    rows = rows.filter(removed_at=None).exclude(declared_in="")
    modules = [name for name in rows.order_by().values_list("declared_in", flat=True).distinct() if name in sys.modules]
    return rows.filter(declared_in__in=modules).exclude(name__in=declared).update(removed_at=ClockTimestamp())
