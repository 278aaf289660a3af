"""Choose messages and dead letters by ids and filters, and go through them in batches."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet

from django_pgqueue.management.cli.options import CHANNEL, HANDLER, IDS, QUEUE, option
from django_pgqueue.models import DeadLetter, Message

STATUSES = {status.label: status for status in Message.Status}
MESSAGE_LOOKUPS = {"queue": "channel__queue", "channel": "channel__name", "handler": "handler", "worker": "worker"}
DEAD_LOOKUPS = {name: name for name in ("queue", "channel", "handler", "reason")}

ALL = option("--all", action="store_true", help="all there are, in place of ids and filters")
MESSAGES = (
    IDS, QUEUE, CHANNEL, HANDLER,
    option("--worker", metavar="NAME", help="only those that this worker has a lease on"),
    option("--status", choices=list(STATUSES), help="only those in this state"),
)  # fmt: skip
DEAD = (IDS, QUEUE, CHANNEL, HANDLER, option("--reason", metavar="WORD", help="only those with this reason"))


def matching(given: Namespace, lookups: dict[str, str]) -> dict[str, Any]:
    """Return the filters of the options that are given, by the names of columns."""
    found = {lookup: getattr(given, name) for name, lookup in lookups.items()}
    return {lookup: value for lookup, value in found.items() if value is not None}


def chosen_messages(given: Namespace, using: str) -> QuerySet[Message]:
    """Return the live messages that the ids and filters choose."""
    wanted = matching(given, MESSAGE_LOOKUPS)
    if given.worker is not None:
        wanted["status"] = Message.Status.LEASED
    if given.status is not None:
        wanted["status"] = STATUSES[given.status]
    if given.ids:
        wanted["id__in"] = given.ids
    return Message.objects.using(using).filter(**wanted)


def chosen_dead(given: Namespace, using: str) -> QuerySet[DeadLetter]:
    """Return the dead letters that the ids and filters choose, without those that were redriven."""
    wanted = matching(given, DEAD_LOOKUPS)
    if given.ids:
        wanted["id__in"] = given.ids
    return DeadLetter.objects.using(using).filter(redriven_at=None, **wanted)


def is_named(given: Namespace) -> bool:
    """Return whether ids alone choose: then the answer must report each of them."""
    filters = {"queue", "channel", "handler", "worker", "status", "reason"} & set(vars(given))
    return bool(given.ids) and given.limit is None and not any(getattr(given, name) for name in filters)


def require_choice(given: Namespace, lookups: dict[str, str], what: str) -> None:
    """Raise CommandError unless there are ids or filters, or --all without them."""
    is_filtered = bool(given.ids or matching(given, lookups) or getattr(given, "status", None))
    if is_filtered == given.all:
        raise CommandError(f"Choose the {what}: give ids or filters, or --all without them.")


def id_parts(found: QuerySet[Any], limit: int | None, size: int) -> Iterator[list[int]]:
    """Yield ids in parts, in order. Each part begins after the last id, so that a row that stays is not read again."""
    left, last = limit, 0
    while left is None or left > 0:
        most = size if left is None else min(size, left)
        ids = list(found.filter(id__gt=last).order_by("id").values_list("id", flat=True)[:most])
        if not ids:
            return
        yield ids
        last, left = ids[-1], None if left is None else left - len(ids)


def list_parts(ids: list[int], size: int) -> Iterator[list[int]]:
    """Yield the given ids in parts, also those that do not exist: the answer reports each named id."""
    unique = sorted(set(ids))
    return (unique[start : start + size] for start in range(0, len(unique), size))
