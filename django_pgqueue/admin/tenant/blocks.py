"""Read and render the blocks of the page of one channel. Each is read by itself: a block that takes too long is left
out, and the others are shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.db import OperationalError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_pgqueue import explain_channel
from django_pgqueue.admin import explanation, rendering
from django_pgqueue.admin.base import Link
from django_pgqueue.admin.counts import STATES
from django_pgqueue.admin.dashboard import drawing, figures, spans
from django_pgqueue.admin.dashboard.alerts import lateness, of_freshness
from django_pgqueue.admin.dashboard.figures import Freshness
from django_pgqueue.admin.dashboard.spans import DAY, SettledFigures, Spans
from django_pgqueue.admin.dead_letter import reason_html
from django_pgqueue.admin.tenant import reads
from django_pgqueue.admin.tenant.reads import Now
from django_pgqueue.lifecycle.figures import Reason
from django_pgqueue.models import Channel, Message
from django_pgqueue.sql.call import bounded_read

LONGEST = 3.0
"""The timeout of a statement, in seconds."""
OUT_OF_TIME = ("57014", "55P03")
"""The SQLSTATEs of a statement that took too long, and of a lock that was not free in time."""
RECENT = timedelta(minutes=90)
"""Ten minutes of a channel are kept for two hours, the first of which is incomplete."""
PARTS = re.compile(r"[^._:-]*[._:-]+|[^._:-]+")
Result = TypeVar("Result")


class Blocks:
    """Make the context of the page. ``may``: whether the user has a permission. ``link``: links to pages that the user
    may view."""

    def __init__(self, channel: Channel, *, using: str, may: Callable[[str], bool], link: Link) -> None:
        self.channel = channel
        self.using = using
        self.may = may
        self.link = link
        self.names = {"queue": channel.queue, "channel": channel.name}
        self.late: list[str] = []

    def read(self, title: str, block: Callable[[], Result], needs: str = "") -> Result | None:
        """Return what the block reads; None if a statement took longer than LONGEST, or the user may not see it."""
        if needs and not self.may(needs):
            return None
        try:
            with bounded_read(self.using, seconds=LONGEST):
                return block()
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in OUT_OF_TIME:
                raise
            self.late.append(title)
            return None

    def context(self) -> dict[str, Any]:
        """Read all blocks and return the template's variables.

        The clock and the backlog are needed by all of them: if they take longer than LONGEST seconds, raises
        OperationalError. Any other block that takes too long is left out and named in ``late``.
        """
        using, channel = self.using, self.channel
        with bounded_read(using, seconds=LONGEST):
            fresh = figures.read_freshness(using=using)
            backlog = reads.counted(channel, using=using)
        measured = backlog if not fresh.is_stale else None
        live = self.read(_("Live messages"), lambda: reads.now(channel, measured, using=using))
        asked = {"channel": channel.name, "queue": channel.queue, "using": using}
        reasons = self.read(_("Why is it not running?"), lambda: explain_channel(**asked)) or []
        key = (channel.queue, channel.name)
        found = self.read(_("Last hour and day"), lambda: spans.spans([key], fresh.now, using=using)) or {}
        of_channel = found.get(key, Spans())
        died = self.read(_("Dead letters"), lambda: figures.died([key], using=using)) or {}
        context = {
            "reasons": explanation.reasons_html(reasons, self.link) if reasons else "",
            "worst": self.worst(reasons, fresh),
            "stale": [rendering.badge(alert.text, alert.kind) for alert in of_freshness(fresh)],
            "measured": None if fresh.measured_at is None else rendering.duration(fresh.now - fresh.measured_at),
            "at": rendering.at(fresh.now),
            "queue": self.link(channel.queue, "queue_change", channel.queue),
            "created": rendering.at(channel.created_at),
            "state": self.state(fresh.now),
            "context": rendering.pretty_json(channel.context) if channel.context else "",
            "charts": self.read(_("Charts"), lambda: self.charts(fresh.now)) or {},
            "spans": self.table(of_channel, died.get(key, (0, 0))),
            "limits": "" if live is None else drawing.saturation(channel, live, of_channel),
            "leases": self.leases(fresh.now),
        }
        letters = self.letters(measured)
        return context | {"letters": letters, "now": self.now(live, letters, fresh.now), "late": self.late}

    def worst(self, reasons: Sequence[Reason], fresh: Freshness) -> str:
        """Return the worst kind of what the head of the page says: bad, late, or empty."""
        kinds = {explanation.badge_kind(reason.code) for reason in reasons}
        kinds |= {alert.kind for alert in of_freshness(fresh)}
        return next((kind for kind in ("bad", "late") if kind in kinds), "")

    def state(self, clock: datetime) -> str:
        """Return whether the channel is open, paused (since when, until when and why) or released."""
        channel = self.channel
        if channel.released_at:
            text = _("since %s: it takes no new messages, and is removed when it is empty")
            badge = rendering.badge(_("released"), "late")
            return format_html("{} {}", badge, text % rendering.at(channel.released_at))
        if channel.paused_at is None:
            return rendering.badge(_("open"), "good")
        lasts = rendering.duration(reads.age(channel.paused_at, clock))
        until = _("until %s") % rendering.at(channel.paused_until) if channel.paused_until else _("without an end")
        return format_html(
            "{} {} <b>{}</b>",
            rendering.badge(_("paused"), "late"),
            _("for %(lasts)s, %(until)s. Reason:") % {"lasts": lasts, "until": until},
            channel.pause_reason or "–",
        )

    def now(self, live: Now | None, letters: dict[str, Any] | None, clock: datetime) -> list[tuple[str, str]]:
        """Return the present figures, each with its name."""
        if live is None:
            return []
        found = []
        titles = (
            _("ready"), _("leased"), _("scheduled"), _("waiting for a limit"), _("waiting for their order key"),
            _("waiting for others"),
        )  # fmt: skip
        for title, (name, chosen) in zip(titles, STATES.items(), strict=True):
            count = getattr(live, name)
            text = figure_text(count)
            address = self.link(text, "message_changelist", channel=self.channel.pk, **chosen)
            found.append((title, address if count else text))
        found.insert(1, (_("oldest waits for"), self.oldest(live, clock)))
        if letters is not None:
            found.append((_("dead letters"), letters["total"]))
        return found

    def oldest(self, live: Now, clock: datetime) -> str:
        """Return how long the oldest ready message has been due, as a link to it."""
        if live.oldest is None:
            return "–"
        message, due_at = live.oldest
        waited = reads.age(due_at, clock)
        kind = lateness(waited)
        link = self.link(rendering.duration(waited), "message_change", message)
        return format_html('<span class="pgqueue-is-{}">{}</span>', kind, link) if kind else link

    def table(self, of_channel: Spans, died: tuple[int, int]) -> list[tuple[str, str, str]]:
        """Return a row for each figure of the settled messages: its name, the hour, the day.

        ``died``: the dead letters of both that wait for a redrive.
        """
        hour, day = self.span(of_channel.hour, died[0], "hour"), self.span(of_channel.day, died[1], "day")
        return [(name, hour[name], day[name]) for name in hour]

    def span(self, span: SettledFigures, died: int, age: str) -> dict[str, str]:
        """Return the figures of an hour or a day by their names. ``age``: the choice of the lists' filter."""
        done = span.settled - span.dead
        archive = self.link(f"{done:,}", "archivedmessage_changelist", **self.names, age=age)
        return {
            _("done"): archive if done else "0",
            _("died"): self.dead(died, **self.names, redriven="no", age=age),
            _("failed attempts"): f"{span.retries:,}",
            _("waited, p50"): drawing.seconds_html(span.wait_p50),
            _("waited, p95"): drawing.seconds_html(span.wait_p95),
            _("ran, p50"): drawing.seconds_html(span.run_p50),
            _("ran, p95"): drawing.seconds_html(span.run_p95),
        }

    def charts(self, clock: datetime) -> dict[str, list[SafeString]]:
        """Return two charts of the last day, and two of the last 90 minutes."""
        lines = ((60, DAY), (10, RECENT))
        day, recent = spans.timelines(self.channel.queue, clock, *lines, channel=self.channel.name, using=self.using)
        return {
            "day": drawing.charts_of(day, _("Settled in the last day"), _("Waited, last day")),
            "recent": drawing.charts_of(recent, _("Settled in the last 90 minutes"), _("Waited, last 90 minutes")),
        }

    def dead(self, count: int, **chosen: object) -> str:
        """Return a number of dead letters as a link to them, marked; zero is plain."""
        link = self.link(figure_text(count), "deadletter_changelist", **chosen)
        return format_html('<span class="pgqueue-is-bad">{}</span>', link) if count else "0"

    def letters(self, measured: Any) -> dict[str, Any] | None:
        """Return the newest dead letters."""
        block = partial(reads.letters, self.channel, measured, using=self.using)
        found = self.read(_("Dead letters"), block, needs="pgqueue.view_deadletter")
        if found is None:
            return None
        chosen = {**self.names, "redriven": "no"}
        return {
            "rows": [
                {
                    "id": self.link(f"#{letter.pk}", "deadletter_change", letter.pk),
                    "handler": breakable(letter.handler),
                    "why": reason_html(letter),
                    "attempts": f"{letter.attempts} / {letter.max_attempts}",
                    "died": rendering.at(letter.dead_at),
                }
                for letter in found.rows
            ],
            "newest": found.newest,
            "total": self.dead(found.count, **chosen),
            "all": self.link(_("All %s dead letters") % figure_text(found.count), "deadletter_changelist", **chosen),
            "may_redrive": self.may("pgqueue.redrive_deadletter"),
        }

    def leases(self, clock: datetime) -> dict[str, Any] | None:
        """Return the leased messages."""
        block = partial(reads.leases, self.channel, using=self.using)
        found = self.read(_("Live leases"), block, needs="pgqueue.view_message")
        if found is None:
            return None
        rows, more = found
        chosen = {"channel": self.channel.pk, "status__exact": int(Message.Status.LEASED)}
        return {
            "rows": [self.lease(message, clock) for message in rows],
            "all": self.link(_("All leased messages"), "message_changelist", **chosen) if more else "",
        }

    def lease(self, message: Message, clock: datetime) -> dict[str, str]:
        """Return the cells of a leased message. ``clock`` is the database's time."""
        until = message.lease_expires_at
        if until is None:
            left = "–"
        elif until <= clock:
            left = rendering.badge(_("expired, it comes back with the next sweep"), "bad")
        else:
            left = _("%(at)s (in %(left)s)") % {"at": rendering.at(until), "left": rendering.duration(until - clock)}
        since = message.leased_at
        return {
            "message": self.link(f"#{message.pk}", "message_change", message.pk),
            "handler": breakable(message.handler),
            "worker": self.link(breakable(message.worker), "worker_change", message.worker) if message.worker else "–",
            "lasts": rendering.duration(reads.age(since, clock)) if since else "–",
            "since": rendering.at(since) if since else "–",
            "until": left,
            "attempts": f"{message.attempts} / {message.max_attempts}",
            "cancelled": rendering.badge(_("to be cancelled"), "late") if message.cancelled_at else "",
        }


def figure_text(count: int) -> str:
    """Return a number with separators; a CappedCount as its own text."""
    return f"{count:,}" if type(count) is int else str(count)


def breakable(name: str) -> str:
    """Return a long name that a line may break after a dot, underscore, colon or dash."""
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in PARTS.findall(name)))
