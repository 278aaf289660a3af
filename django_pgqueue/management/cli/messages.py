"""Change live messages, which ids or filters choose: retry, reschedule, cancel, discard, release and edit them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.core.management.base import CommandError

import django_pgqueue as pgqueue
from django_pgqueue.management.cli.choosing import (
    ALL,
    MESSAGE_LOOKUPS,
    MESSAGES,
    chosen_messages,
    id_parts,
    is_named,
    list_parts,
    require_choice,
)
from django_pgqueue.management.cli.options import MOST, REASON, duration, moment, one_of, option, payload
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import clock
from django_pgqueue.models import Message

# Each batch is a transaction: locks are short, and finished batches stay done.
BATCH_MESSAGES = 1_000
WAITING = (Message.Status.READY, Message.Status.SCHEDULED)
LEASED = (Message.Status.LEASED,)
LEFT_ALONE = {"busy", "leased", "waiting", "settled", "not_found"}
CHOICE = (*MESSAGES, ALL, MOST)

# Takes ids, and returns the outcome of each.
Action = Callable[[list[int]], Mapping[int, str]]


def change(run: VerbRun, act: Action, among: tuple[Message.Status, ...]) -> None:
    """Do the action to the chosen messages in batches, and answer with the number of each outcome.

    ``among``: the states in which the action changes a message; others are not read. Messages that are enqueued
    meanwhile are left out, because producers may be faster than the command.
    """
    given = run.given
    require_choice(given, MESSAGE_LOOKUPS, "messages")
    found = chosen_messages(given, run.using).filter(status__in=among)
    if run.dry_run:
        count = found.count()
        would_change(run, count if given.limit is None else min(count, given.limit))
        return
    # Of named messages the answer says what became of each; a lease is released only of those that have one.
    if is_named(given) and among != LEASED:
        parts = list_parts(given.ids, BATCH_MESSAGES)
    else:
        newest = found.order_by("-id").values_list("id", flat=True).first() or 0
        parts = id_parts(found.filter(id__lte=newest), given.limit, BATCH_MESSAGES)
    finish(run, Counter(outcome for ids in parts for outcome in act(ids).values()))


def would_change(run: VerbRun, count: int) -> None:
    """Answer for ``--dry-run``."""
    run.answer(f"{count} match", matching=count)


def finish(run: VerbRun, counts: Counter[str]) -> None:
    """Answer with the number of each outcome. Raises CommandError if some messages were left alone."""
    text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing matches"
    run.answer(text, outcomes=dict(counts))
    if LEFT_ALONE & set(counts):
        raise CommandError("Not all of them were changed: see the counts above.")


def cancel(ids: list[int], **more: Any) -> Mapping[int, str]:
    # cancel raises for a single id that does not exist; with a second id it returns an outcome.
    return {pk: word for pk, word in pgqueue.cancel([*ids, 0], **more).items() if pk}


def with_reason(act: Any, among: tuple[Message.Status, ...], run: VerbRun) -> None:
    change(run, partial(act, reason=run.given.reason, using=run.using), among)


for word, act, among, what, example in (
    ("cancel", cancel, tuple(Message.Status), "Archive messages that wait, and ask the workers of leased ones to stop.",
     "--channel acme --reason 'sent twice'"),
    ("discard", pgqueue.discard, tuple(Message.Status), "Make messages dead letters, leased ones too.", "4711"),
    ("release", pgqueue.lease_release, LEASED, "Release the leases of workers that hang or have died.",
     "--worker worker-3:4711"),
):  # fmt: skip
    verb(f"{word} message", what, example, *CHOICE, REASON, changes=True)(partial(with_reason, act, among))


@verb("retry message", "Make messages ready now, whatever their back-off.", "--handler h", *CHOICE, changes=True)
def retry(run: VerbRun) -> None:
    change(run, partial(pgqueue.reschedule, using=run.using), WAITING)


@verb(
    "reschedule message", "Give messages that wait another time.", "4711 --delay 2h", *CHOICE,
    one_of(
        option("--at", type=moment, metavar="TIME", help="the time: 2030-01-31T06:00+01:00"),
        option("--delay", type=duration, metavar="DURATION", help="from now"), required=True,
    ),
    changes=True,
)  # fmt: skip
def reschedule(run: VerbRun) -> None:
    at = run.given.at or clock(run.using) + run.given.delay
    change(run, partial(pgqueue.reschedule, at=at, using=run.using), WAITING)


@verb(
    "edit message", "Give one waiting message another payload.", """4711 --payload '{"n": 2}'""",
    option("id", type=int, metavar="ID"),
    option("--payload", type=payload, required=True, metavar="JSON", help="the new payload"),
    changes=True,
)  # fmt: skip
def edit_message(run: VerbRun) -> None:
    if run.dry_run:
        found = Message.objects.using(run.using).filter(pk=run.given.id, status__in=WAITING)
        would_change(run, found.count())
        return
    finish(run, Counter([pgqueue.edit(run.given.id, run.given.payload, using=run.using)]))
