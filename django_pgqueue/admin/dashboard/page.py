"""Build the page from the request's choices and the user's permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue import charts
from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import Link, ReadOnlyAdmin, refresh_seconds
from django_pgqueue.admin.counts import STATES
from django_pgqueue.admin.dashboard import drawing, figures, spans
from django_pgqueue.admin.dashboard.alerts import alerts, lateness
from django_pgqueue.admin.dashboard.figures import (
    ORDERS,
    BacklogCounts,
    ChannelFigures,
    Freshness,
    QueueFigures,
    ScheduleFigures,
    WorkerFigures,
)
from django_pgqueue.admin.dashboard.incidents import Incident, incidents
from django_pgqueue.admin.dashboard.spans import SettledFigures, Spans
from django_pgqueue.admin.filters import queue_names
from django_pgqueue.lifecycle.breakers import breakers
from django_pgqueue.lifecycle.figures import LimitHealth, held_channels, limit_health
from django_pgqueue.limits import handler_of_limit
from django_pgqueue.models import Dashboard, Message
from django_pgqueue.sql.call import alias, bounded_read

# The timeout of a statement, in seconds: the page refreshes itself, and slow statements must not pile up.
STATEMENT_SECONDS = 10.0
MOST_ALERTS = 12
MOST_HANDLERS = 20
# The most messages that are counted for each shared limit, and the most ordered channels that are looked at.
MOST_COUNTED = 1_000
MOST_BREAKERS = 100
PART = "X-Pgqueue-Part"
MOST_PAGES = 500
Counts = tuple[int, int]
"""Of the last hour, and of the last day."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold the choices of a request. ``name``: a part of channels' names. ``page``: the page of channels, from 0."""

    queue: str | None
    name: str
    order: str
    page: int

    @classmethod
    def of(cls, request: HttpRequest) -> Asked:
        """Read the choices from the query string. A wrong value becomes the default."""
        # PostgreSQL has no text with NUL.
        given = {key: request.GET.get(key, "").replace("\0", "").strip() for key in ("queue", "q", "order", "p")}
        page = given["p"]
        return cls(
            queue=given["queue"] or None,
            name=given["q"][:200],
            order=given["order"] if given["order"] in ORDERS else "backlog",
            page=min(int(page), MOST_PAGES) if page.isascii() and page.isdigit() and len(page) < 6 else 0,
        )

    def address(self, **changed: object) -> str:
        """Return the address with the same choices except the given ones; the first page, unless another is chosen."""
        chosen = {"queue": self.queue, "q": self.name, "order": self.order, **changed}
        return "?" + urlencode({key: str(value) for key, value in chosen.items() if value})


@admin.register(Dashboard)
class DashboardAdmin(ReadOnlyAdmin):
    """Show the dashboard to users with the permission ``pgqueue.view_dashboard``. Links lead only to pages that they
    may view."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="pgqueue_dashboard_changelist")]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the page, or only the part that refreshes if the header PART asks for it. Raises PermissionDenied."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = Asked.of(request)
        context = self.figures(request, asked) | {"asked": asked}
        if request.headers.get(PART):
            return TemplateResponse(request, "admin/pgqueue/dashboard_part.html", context)
        more = {"title": _("Dashboard"), **(extra_context or {})}
        return self.page(request, "dashboard", self.app_trail(), **context, **more)

    def figures(self, request: HttpRequest, asked: Asked) -> dict[str, Any]:
        """Read all that the page shows, in one bounded transaction, and return the template's variables.

        Raises OperationalError if the reads together take longer than STATEMENT_SECONDS.
        """
        using = alias(None)
        link = self.link_for(request)
        sees = {name: request.user.has_perm(f"pgqueue.{name}") for name in ("view_deadletter", "view_message")}
        with bounded_read(using, seconds=STATEMENT_SECONDS):
            fresh = figures.read_freshness(using=using)
            names = queue_names(figures.MOST_NAMES, using=using)
            shown = [name for name in names if name == asked.queue] if asked.queue else names
            queues = figures.queue_figures(shown, using=using)
            of_queues = spans.spans([(queue.name, None) for queue in queues], fresh.now, using=using)
            hour, day = spans.timelines(asked.queue, fresh.now, (1, spans.HOUR), (10, spans.DAY), using=using)
            channels, more = figures.channel_figures(
                queue=asked.queue, name=asked.name, order=asked.order, page=asked.page, now=fresh.now, using=using
            )
            of_channels = spans.spans([(row.queue, row.name) for row in channels], fresh.now, using=using)
            of_handlers = spans.of_handlers(asked.queue, fresh.now, using=using)
            limited = figures.limited_channels(asked.queue, using=using)
            shared = limit_health(most=MOST_COUNTED, using=using)
            held = held_channels(asked.queue, most=MOST_COUNTED, using=using)
            guarded = breakers(most=MOST_BREAKERS, using=using)
            workers = figures.worker_figures(using=using)
            schedules = figures.schedule_figures(using=using)
            died = figures.died([(row.queue, row.name) for row in channels], using=using) if fresh.any_dead else {}
            dead, live = sees["view_deadletter"] and fresh.any_dead, sees["view_message"]
            failing = incidents(asked.queue, fresh.now, letters=dead, retries=live, using=using)
        found = alerts(fresh, queues, of_queues, died, limited, shared, held, guarded, workers, schedules)
        now = fresh.now
        return {
            "incidents": self.incident_rows(failing, asked.queue, now, link, shared),
            "may_redrive": request.user.has_perm("pgqueue.redrive_deadletter"),
            "may_pause": request.user.has_perm("pgqueue.pause_sharedlimit"),
            "alerts": [
                rendering.badge(link(alert.text, alert.page, **alert.query), alert.kind)
                for alert in found[:MOST_ALERTS]
            ],
            "more_alerts": max(0, len(found) - MOST_ALERTS),
            "bad": sum(problem.kind == "bad" for problem in found) + sum(group.kind(now) == "bad" for group in failing),
            "measured": None if fresh.measured_at is None else rendering.duration(now - fresh.measured_at),
            "counted": None if fresh.counted_at is None else rendering.duration(now - fresh.counted_at),
            "stale": fresh.is_stale,
            "at": rendering.at(now),
            "seconds": refresh_seconds(),
            "queue_names": names,
            "orders": self.orders(asked),
            "queues": [
                self.queue_row(queue, of_queues.get(key, Spans()), died.get(key, (0, 0)), fresh, link)
                for queue in queues
                for key in [(queue.name, None)]
            ],
            "left_out": len(shown) - len(queues),
            "charts": [
                *drawing.charts_of(hour, _("Settled in the last hour"), _("Waited, last hour")),
                *drawing.charts_of(day, _("Settled in the last day"), _("Waited, last day")),
            ],
            "channels": [
                self.channel_row(row, of_channels.get(key, Spans()), died.get(key, (0, 0)), fresh, link)
                for row in channels
                for key in [(row.queue, row.name)]
            ],
            "handlers": self.handler_rows(asked.queue, of_handlers, link),
            "before": asked.address(p=asked.page - 1) if asked.page else None,
            "after": asked.address(p=asked.page + 1) if more else None,
            "workers": [self.worker_row(worker, link) for worker in workers],
            "workers_total": workers[0].total if workers else 0,
            "schedules": [self.schedule_row(schedule, link) for schedule in schedules],
            "schedules_total": schedules[0].total if schedules else 0,
        }

    def incident_rows(
        self, failing: Sequence[Incident], queue: str | None, now: datetime, link: Link, shared: Sequence[LimitHealth]
    ) -> list[dict[str, Any]]:
        """Return the sentence and the links of each group of failures, and of each other handler that is paused.

        ``letters``: where the redrive of the group is sent. ``switch``: the page that pauses or resumes the handler.
        """
        paused = {handler_of_limit(row.name): row.waiting for row in shared if row.why == "paused"}
        paused.pop(None, None)
        rows = [
            {
                "sentence": rendering.badge(group.sentence(now), group.kind(now)),
                "handler": group.handler,
                "paused": paused.pop(group.handler, None) is not None,
                "links": [
                    *([link(_("Look at one"), "deadletter_change", group.letter)] if group.letter else []),
                    *([link(_("All of them"), "deadletter_changelist", **letters)] if group.dead else []),
                    *([link(_("All retries"), "message_changelist", **group.query(queue))] if group.retried else []),
                ],
                "letters": self.url("deadletter_changelist", **letters) if group.dead else "",
                "newest": group.letter,
            }
            for group in failing
            for letters in [group.query(queue, redriven="no", age="day")]
        ]
        for handler, waiting in paused.items():
            text = ngettext("%(n)s message waits for %(handler)s.", "%(n)s messages wait for %(handler)s.", waiting)
            sentence = rendering.badge(text % {"n": f"{waiting:,}", "handler": handler}, "late")
            rows.append({"sentence": sentence, "handler": handler, "paused": True})
        return [{**row, "switch": self.url("sharedlimit_handler", handler=row["handler"])} for row in rows]

    def orders(self, asked: Asked) -> list[dict[str, Any]]:
        """Return the choices for the order of the channels, with the present one marked."""
        texts = {
            "backlog": _("longest line"),
            "oldest": _("longest wait"),
            "errors": _("most errors"),
            "dead": _("most dead letters"),
            "limits": _("nearest to a limit"),
            "busy": _("busiest"),
            "name": _("name"),
        }
        return [{"text": text, "value": order, "chosen": order == asked.order} for order, text in texts.items()]

    def age(self, backlog: BacklogCounts, fresh: Freshness) -> str:
        """Return how long the oldest ready message has been due, in the colour of its lateness."""
        if backlog.oldest_at is None:
            return format_html('<span class="quiet">{}</span>', "–")
        age = max(timedelta(0), fresh.now - backlog.oldest_at)
        kind = lateness(age)
        kind = f"is-{kind}" if kind else "plain"
        return format_html('<span class="pgqueue-{}">{}</span>', kind, rendering.duration(age))

    def backlog_cells(
        self, backlog: BacklogCounts, link: Link, live: Mapping[str, Any], dead: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the cells ready, leased, scheduled, waiting for a limit, a key, others, and dead as links.

        ``live`` filters the list of messages, ``dead`` the list of dead letters, which knows a channel by its name.
        """
        cells = {
            name: drawing.linked(link, getattr(backlog, name), "message_changelist", **live, **query)
            for name, query in STATES.items()
        }
        return cells | {
            "dead": drawing.linked(link, backlog.dead, "deadletter_changelist", "is-bad", **dead, redriven="no")
        }

    def settled_cells(self, found: Spans, died: Counts, link: Link, chosen: Mapping[str, Any]) -> dict[str, str]:
        """Return the cells of the last hour and day: messages done, dead letters that wait, times of waiting and
        running."""
        hour, day, archive = found.hour, found.day, "archivedmessage_changelist"
        letters = {**chosen, "redriven": "no"}
        return {
            "done": drawing.linked(link, hour.settled - hour.dead, archive, **chosen, age="hour"),
            "done_day": drawing.linked(link, day.settled - day.dead, archive, **chosen, age="day"),
            "errors": drawing.linked(link, died[0], "deadletter_changelist", "is-bad", **letters, age="hour"),
            "errors_day": drawing.linked(link, died[1], "deadletter_changelist", **letters, age="day"),
            "waits": drawing.times(hour, day, "wait"),
            "runs": drawing.times(hour, day, "run"),
        }

    def queue_row(
        self, queue: QueueFigures, found: Spans, died: tuple[int, int], fresh: Freshness, link: Link
    ) -> dict[str, Any]:
        """Return the cells of a queue. The number of workers is marked if messages wait and no worker serves them."""
        chosen = {"queue": queue.name}
        workers = link(str(queue.workers), "worker_changelist", alive="yes")
        idle = not queue.workers and queue.backlog.ready
        return {
            "name": queue.name,
            "address": "?" + urlencode(chosen),
            "state": rendering.pause_badge(queue.pause_reason) if queue.paused else "",
            "oldest": self.age(queue.backlog, fresh),
            "workers": format_html('<span class="pgqueue-{}">{}</span>', "is-bad" if idle else "plain", workers),
            "course": drawing.course(_("settled by the minute, last hour"), found),
            **self.backlog_cells(queue.backlog, link, chosen, chosen),
            **self.settled_cells(found, died, link, chosen),
        }

    def channel_row(
        self, row: ChannelFigures, found: Spans, died: tuple[int, int], fresh: Freshness, link: Link
    ) -> dict[str, Any]:
        """Return the cells of a channel, whose name links to the tenant's page."""
        chosen = {"queue": row.queue, "channel": row.name}
        state = _("paused") if row.paused else _("released") if row.released else ""
        return {
            "name": link(row.name, "channel_tenant", row.id),
            "queue": row.queue,
            "state": rendering.badge(state, "late") if state else "",
            "oldest": self.age(row.backlog, fresh),
            "limits": drawing.saturation(row, row.backlog, found),
            "course": drawing.course(_("settled by the hour, last day"), found),
            **self.backlog_cells(row.backlog, link, {"channel": row.id}, chosen),
            **self.settled_cells(found, died, link, chosen),
        }

    def handler_rows(
        self, queue: str | None, handlers: dict[str, tuple[int, SettledFigures]], link: Link
    ) -> list[dict[str, Any]]:
        """Return the cells of the busiest handlers, MOST_HANDLERS at most."""
        rows = []
        busiest = sorted(handlers.items(), key=lambda item: (-item[1][1].settled, -item[1][0], item[0]))
        for name, (leased, found) in busiest[:MOST_HANDLERS]:
            chosen: dict[str, Any] = {"handler": name, **({"queue": queue} if queue else {})}
            live = {**chosen, "status__exact": int(Message.Status.LEASED)}
            rows.append(
                {
                    "name": link(name, "archivedmessage_changelist", **chosen, age="hour"),
                    "in_flight": drawing.linked(link, leased, "message_changelist", **live),
                    "rate": charts.value_text(round(found.settled / 60, 1)),
                    "failed": f"{found.retries + found.dead:,}",
                    "waits": drawing.percentile_pair(found.wait_p50, found.wait_p95),
                    "runs": drawing.percentile_pair(found.run_p50, found.run_p95),
                }
            )
        return rows

    def worker_row(self, worker: WorkerFigures, link: Link) -> dict[str, Any]:
        """Return the cells of a worker, with the first MOST_SHOWN_RUNNING messages that it runs."""
        if worker.is_lost:
            state = rendering.badge(_("silent"), "bad")
        elif worker.paused:
            state = rendering.badge(_("paused"), "late")
        else:
            state = rendering.badge(worker.state, "good" if worker.state == "running" else "late")
        shown = '{}\N{NO-BREAK SPACE}<span class="quiet">{}</span>'
        running = [
            format_html(shown, link(f"#{pk}", "message_change", pk), rendering.seconds_text(since))
            for pk, since in worker.running[: figures.MOST_SHOWN_RUNNING]
        ]
        return {
            "name": link(worker.name, "worker_change", worker.name),
            "state": state,
            "heartbeat": drawing.ago(worker.silent),
            "queues": ", ".join(worker.queues),
            "running": running,
            "more": max(0, len(worker.running) - figures.MOST_SHOWN_RUNNING),
            "busy": f"{len(worker.running)} / {worker.concurrency}",
        }

    def schedule_row(self, schedule: ScheduleFigures, link: Link) -> dict[str, Any]:
        """Return the cells of a schedule. A tick that is more than a minute late is marked."""
        if schedule.next is None:
            coming = "–"
        elif schedule.next < 0:
            late = _("due for %s") % rendering.seconds_text(-schedule.next)
            coming = format_html('<span class="pgqueue-is-bad">{}</span>', late) if schedule.next < -60 else _("now")
        else:
            coming = _("in %s") % rendering.seconds_text(schedule.next)
        return {
            "name": link(schedule.name, "schedule_change", schedule.id),
            "when": schedule.cron or _("every %s") % rendering.duration(schedule.every or timedelta(0)),
            "next": coming,
            "last": drawing.ago(schedule.last),
            "state": rendering.badge(*((_("failing"), "bad") if schedule.failing else (_("enabled"), "good"))),
        }
