from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from django_pgqueue.lifecycle.cancel import cancel
from django_pgqueue.lifecycle.discard import discard
from django_pgqueue.lifecycle.edit import edit
from django_pgqueue.lifecycle.lease_release import lease_release
from django_pgqueue.lifecycle.reschedule import reschedule
from django_pgqueue.management.acting import (
    ActingCommand,
    at_least_one,
    clock,
    errors_as_command_errors,
    moment,
    payload,
    seconds,
)
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Message
from django_pgqueue.outcomes import KEEP

# Each batch is a transaction: locks are short, and finished batches stay done.
BATCH_MESSAGES = 1_000
STATUSES = {status.label: status for status in Message.Status}
FILTERS = {"queue": "channel__queue", "channel": "channel__name", "handler": "handler", "worker": "worker"}
# The states in which an action changes a message; other messages are not read.
CANDIDATES = {
    "retry": (Message.Status.READY, Message.Status.SCHEDULED),
    "reschedule": (Message.Status.READY, Message.Status.SCHEDULED),
    "release": (Message.Status.LEASED,),
}
LEFT_ALONE = {"busy", "leased", "waiting", "settled", "not_found"}

# Takes ids, and returns the outcome of each.
Action = Callable[[list[int]], Mapping[int, str]]


class Command(ActingCommand):
    help = (
        "Changes live messages, by their ids or by filters: retry (now), reschedule, cancel, discard (to the dead "
        "letters), release (the leases of a worker that hangs or has died), edit (the payload of one)."
    )

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["retry", "reschedule", "cancel", "discard", "release", "edit"])
        parser.add_argument("ids", nargs="*", type=at_least_one, metavar="ID", help="these messages")
        parser.add_argument("--queue", metavar="NAME", help="only those of this queue")
        parser.add_argument("--channel", metavar="NAME", help="only those of channels with this name")
        parser.add_argument("--handler", metavar="NAME", help="only those of this handler")
        parser.add_argument("--worker", metavar="NAME", help="only those that this worker has a lease on")
        parser.add_argument("--status", choices=list(STATUSES), help="only those in this state")
        parser.add_argument("--all", action="store_true", help="all live messages, in place of ids and filters")
        parser.add_argument(
            "--limit", type=at_least_one, metavar="N", help="the most messages to change (default: all)"
        )
        parser.add_argument("--reason", default="", help="for cancel, discard, release: kept with the message")
        when = parser.add_mutually_exclusive_group()
        when.add_argument("--at", type=moment, metavar="TIME", help="for reschedule: 2030-01-31T06:00+01:00")
        when.add_argument("--delay", type=seconds, metavar="SECONDS", help="for reschedule: from now")
        parser.add_argument("--payload", type=payload, default=KEEP, metavar="JSON", help="for edit: the new payload")

    def handle(self, *, action: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        check_options(action, given)
        found = matching_messages(action, given, using)
        if dry_run:
            self.describe(action, found, given["limit"], form)
            return
        counts: Counter[str] = Counter()
        with errors_as_command_errors(using):
            act = action_function(action, given, using)
            if given["ids"] and action != "release":
                counts = run_all(sorted(set(given["ids"])), act)
            else:
                counts = run_matching(found, given["limit"], act)
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing matches"
        self.answer(form, text, {"action": action, "dry_run": False, "outcomes": dict(counts)})
        if LEFT_ALONE & set(counts):
            raise CommandError("Not all of them were changed: see the counts above.")

    def describe(self, action: str, found: QuerySet[Message], limit: int | None, form: str) -> None:
        """Show for --dry-run how many messages the action would change, ``limit`` at most."""
        count = found.count()
        count = count if limit is None else min(count, limit)
        facts = {"action": action, "dry_run": True, "matching": count}
        self.answer(form, f"{count} match", facts)


def check_options(action: str, given: dict[str, Any]) -> None:
    """Raise CommandError for options that do not go together."""
    chosen = [name for name in (*FILTERS, "status") if given[name] is not None]
    if not given["ids"] and not chosen and not given["all"]:
        raise CommandError("Choose the messages: give ids, filters, or --all.")
    if given["all"] and (given["ids"] or chosen):
        raise CommandError("--all cannot be combined with ids or filters.")
    if action == "reschedule" and given["at"] is None and given["delay"] is None:
        raise CommandError("reschedule needs --at or --delay. To make messages ready at once, use retry.")
    if action == "edit" and (len(given["ids"]) != 1 or given["payload"] is KEEP or chosen):
        raise CommandError("edit takes one id and --payload.")


def matching_messages(action: str, given: dict[str, Any], using: str) -> QuerySet[Message]:
    """Return the messages that the ids and filters choose."""
    wanted = {lookup: given[name] for name, lookup in FILTERS.items() if given[name] is not None}
    if given["worker"] is not None:
        wanted["status"] = Message.Status.LEASED
    if given["status"] is not None:
        wanted["status"] = STATUSES[given["status"]]
    if given["ids"]:
        wanted["id__in"] = given["ids"]
    found = Message.objects.using(using).filter(**wanted)
    return found.filter(status__in=CANDIDATES[action]) if action in CANDIDATES else found


def action_function(action: str, given: dict[str, Any], using: str) -> Action:
    """Return the function that does the action."""
    reason = given["reason"]
    at = clock(using) + given["delay"] if given["delay"] else given["at"]
    found: dict[str, Action] = {
        "retry": lambda ids: reschedule(ids, using=using),
        "reschedule": lambda ids: reschedule(ids, at=at, using=using),
        # cancel raises for a single id that does not exist; with a second id it returns an outcome.
        "cancel": lambda ids: {pk: word for pk, word in cancel([*ids, 0], reason=reason, using=using).items() if pk},
        "discard": lambda ids: discard(ids, reason=reason, using=using),
        "release": lambda ids: lease_release(ids, reason=reason, using=using),
        "edit": lambda ids: {ids[0]: edit(ids[0], given["payload"], using=using)},
    }
    return found[action]


def run_all(ids: list[int], act: Action) -> Counter[str]:
    """Do the action to the ids in batches. Returns the number of each outcome."""
    counts: Counter[str] = Counter()
    for start in range(0, len(ids), BATCH_MESSAGES):
        counts += Counter(act(ids[start : start + BATCH_MESSAGES]).values())
    return counts


def run_matching(found: QuerySet[Message], limit: int | None, act: Action) -> Counter[str]:
    """Do the action to the matching messages, in the order of their ids. Returns how many have which outcome.

    ``limit``: the most messages; None: all. Messages that are enqueued meanwhile are left out, because producers may be
    faster than the command.
    """
    counts: Counter[str] = Counter()
    newest = found.order_by("-id").values_list("id", flat=True).first() or 0
    last, left = 0, limit
    while left is None or left > 0:
        size = BATCH_MESSAGES if left is None else min(BATCH_MESSAGES, left)
        ids = list(found.filter(id__gt=last, id__lte=newest).order_by("id").values_list("id", flat=True)[:size])
        if not ids:
            break
        counts += Counter(act(ids).values())
        last, left = ids[-1], None if left is None else left - len(ids)
    return counts
