"""Group what fails by handler and error, for an operator on call: dead letters, and messages that wait for a retry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.filters import MOST_DEAD, due_first, problem, retried
from django_pgqueue.models import DeadLetter

DAY = timedelta(days=1)
# The most rows that are grouped, the newest dead letters and the retries that are due first, and the most groups that
# are shown.
MOST_GROUPED = 1_000
MOST_INCIDENTS = 3


@dataclass(slots=True)
class Incident:
    """Hold messages of one handler with one error. ``error``: as ``problem`` writes it. ``letter``, ``message``: the
    ids of the newest dead letter, and of a message that waits for a retry. ``cut``: there may be more than were read.
    """

    handler: str
    error: str
    first_at: datetime
    last_at: datetime
    cut: bool = False
    dead: int = 0
    retried: int = 0
    letter: int | None = None
    message: int | None = None
    channels: set[str] = field(default_factory=set)

    def query(self, queue: str | None, **more: object) -> dict[str, object]:
        """Return the choices for the list of dead letters or messages; ``queue`` None means all queues."""
        return {"handler": self.handler, "error": self.error, **more, **({"queue": queue} if queue else {})}

    def kind(self, now: datetime) -> str:
        """Return bad, or late if none of them failed within an hour."""
        return "bad" if now - self.last_at < timedelta(hours=1) else "late"

    def sentence(self, now: datetime) -> str:
        """Say what fails, where, since when, why, and how often."""
        text = (
            _(
                "%(handler)s has failed for at least %(where)s since %(since)s or earlier: %(error)s "
                "(at least %(counts)s, the last %(ago)s ago)"
            )
            if self.cut
            else _("%(handler)s has failed for %(where)s since %(since)s: %(error)s (%(counts)s, the last %(ago)s ago)")
        )
        first, today = timezone.localtime(self.first_at), timezone.localtime(now).date()
        number = len(self.channels)
        retried = ngettext("%s waits for a retry", "%s wait for a retry", self.retried) % f"{self.retried:,}"
        counts = [_("%s dead") % f"{self.dead:,}"] if self.dead else []
        return text % {
            "handler": self.handler,
            "where": next(iter(self.channels))
            if number == 1 and not self.cut
            else ngettext("%s channel", "%s channels", number) % f"{number:,}",
            "since": date_format(first, "H:i" if first.date() == today else "j M, H:i"),
            "error": self.error,
            "counts": ", ".join([*counts, retried] if self.retried else counts),
            "ago": rendering.duration(max(timedelta(0), now - self.last_at)),
        }


def incidents(queue: str | None, now: datetime, *, letters: bool, retries: bool, using: str) -> list[Incident]:
    """Return the largest groups of the last day, MOST_INCIDENTS at most, in one query for each kind.

    ``queue`` None means all queues. ``now``: the time of the database. ``letters``: read dead letters that wait for a
    redrive, MOST_GROUPED among the newest MOST_DEAD, without those that an operator has discarded. ``retries``: read
    messages that wait for a retry, MOST_GROUPED among the MOST_DEAD scheduled ones that are due first.
    """
    groups: dict[tuple[str, str], Incident] = {}
    if letters:
        newest = DeadLetter.objects.using(using).order_by("-id")
        found = newest.filter(pk__in=newest.values("pk")[:MOST_DEAD], redriven_at=None, dead_at__gte=now - DAY)
        found = found.exclude(reason="discarded")
        of_letter = {"in_queue": F("queue"), "in_channel": F("channel"), "at": F("dead_at")}
        for group, pk in fold(groups, found.annotate(**of_letter), newest, queue, now):
            group.dead += 1
            group.letter = group.letter or pk
    if retries:
        due = due_first(using)
        of_message = {"in_queue": F("channel__queue"), "in_channel": F("channel__name"), "at": KT("errors__-1__at")}
        for group, pk in fold(groups, retried(due).annotate(**of_message), due, queue, now):
            group.retried += 1
            group.message = group.message or pk
    return sorted(groups.values(), key=lambda group: -group.dead - group.retried)[:MOST_INCIDENTS]


def fold(
    groups: dict[tuple[str, str], Incident], found: QuerySet[Any], read: QuerySet[Any], queue: str | None, now: datetime
) -> Iterator[tuple[Incident, int]]:
    """Put each row of the last day into its group, and yield both. ``read``: all rows; ``found`` are of the first."""
    if queue:
        found = found.filter(in_queue=queue)
    beyond = Subquery(read.values("pk")[MOST_DEAD : MOST_DEAD + 1])
    rows = list(
        found.annotate(problem=problem(found.model), beyond=beyond).values_list(
            "pk", "handler", "problem", "in_queue", "in_channel", "at", "beyond"
        )[: MOST_GROUPED + 1]
    )
    for pk, handler, error, name, channel, text, more in rows[:MOST_GROUPED]:
        at = text if isinstance(text, datetime) else rendering.parsed(text)
        if at is None or not abs(now - at) < DAY:
            continue
        group = groups.setdefault((handler, error), Incident(handler, error, at, at))
        group.cut |= len(rows) > MOST_GROUPED or more is not None
        group.channels.add(f"{name}/{channel}")
        group.first_at, group.last_at = min(group.first_at, at), max(group.last_at, at)
        yield group, pk
