"""Group the errors of recent dead letters by what they have in common, for an operator on call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Subquery
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.dashboard.figures import MOST_DEAD
from django_pgqueue.admin.dead_letter import problem
from django_pgqueue.models import DeadLetter

DAY = timedelta(days=1)
# The most dead letters that are grouped, the newest first, and the most groups that are shown.
MOST_GROUPED = 1_000
MOST_INCIDENTS = 3


@dataclass(slots=True)
class Incident:
    """Hold dead letters of one handler with one error. ``error``: as ``problem`` writes it. ``newest``: the id of the
    newest letter. ``cut``: there may be more letters than were read."""

    handler: str
    error: str
    newest: int
    first_at: datetime
    last_at: datetime
    cut: bool
    count: int = 0
    channels: set[str] = field(default_factory=set)

    def query(self, queue: str | None) -> Mapping[str, object]:
        """Return the choices for the list of dead letters that show these; ``queue`` None means all queues."""
        chosen = {"handler": self.handler, "error": self.error, "redriven": "no", "age": "day"}
        return chosen | {"queue": queue} if queue else chosen

    def kind(self, now: datetime) -> str:
        """Return bad, or late if none of them died within an hour."""
        return "bad" if now - self.last_at < timedelta(hours=1) else "late"

    def sentence(self, now: datetime) -> str:
        """Say what fails, where, since when, why, and how often."""
        text = (
            _(
                "%(handler)s has failed for at least %(where)s since %(since)s or earlier: %(error)s "
                "(at least %(count)s dead, the last %(ago)s ago)"
            )
            if self.cut
            else _(
                "%(handler)s has failed for %(where)s since %(since)s: %(error)s (%(count)s dead, the last %(ago)s ago)"
            )
        )
        first, today = timezone.localtime(self.first_at), timezone.localtime(now).date()
        number = len(self.channels)
        return text % {
            "handler": self.handler,
            "where": next(iter(self.channels))
            if number == 1 and not self.cut
            else ngettext("%s channel", "%s channels", number) % f"{number:,}",
            "since": date_format(first, "H:i" if first.date() == today else "j M, H:i"),
            "error": self.error,
            "count": f"{self.count:,}",
            "ago": rendering.duration(max(timedelta(0), now - self.last_at)),
        }


def incidents(queue: str | None, now: datetime, *, using: str) -> list[Incident]:
    """Return the largest groups of dead letters of the last day that wait for a redrive, MOST_INCIDENTS at most.

    ``queue`` None means all queues. ``now``: the time of the database. The newest MOST_GROUPED among the newest
    MOST_DEAD are read, without those that an operator has discarded.
    """
    letters = DeadLetter.objects.using(using)
    newest = letters.order_by("-id").values("pk")
    found = letters.filter(
        pk__in=newest[:MOST_DEAD], redriven_at=None, dead_at__gte=now - DAY, dead_at__lt=now + DAY
    ).exclude(reason="discarded")
    if queue:
        found = found.filter(queue=queue)
    rows = list(
        found.annotate(problem=problem(), beyond=Subquery(newest[MOST_DEAD : MOST_DEAD + 1]))
        .order_by("-id")
        .values_list("pk", "handler", "problem", "queue", "channel", "dead_at", "beyond")[: MOST_GROUPED + 1]
    )
    cut = len(rows) > MOST_GROUPED
    groups: dict[tuple[str, str], Incident] = {}
    for pk, handler, error, name, channel, dead_at, beyond in rows[:MOST_GROUPED]:
        unread = cut or beyond is not None
        group = groups.setdefault((handler, error), Incident(handler, error, pk, dead_at, dead_at, unread))
        group.count += 1
        group.channels.add(f"{name}/{channel}")
        group.first_at = min(group.first_at, dead_at)
        group.last_at = max(group.last_at, dead_at)
    return sorted(groups.values(), key=lambda group: -group.count)[:MOST_INCIDENTS]
