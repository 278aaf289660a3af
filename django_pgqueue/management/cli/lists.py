"""List each thing: queues, channels, messages, dead letters, schedules, limits, breakers and workers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.db.models import QuerySet

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.breakers import breakers
from django_pgqueue.lifecycle.figures import limit_health, metrics
from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.management.cli.choosing import DEAD, MESSAGES, chosen_dead, chosen_messages, matching
from django_pgqueue.management.cli.options import CHANNEL, HANDLER, QUEUE, option, positive
from django_pgqueue.management.cli.settings import present
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import clock
from django_pgqueue.models import Channel, Queue, Schedule, SharedLimit, Worker
from django_pgqueue.sql.call import call

ROWS = option("--limit", type=positive, default=100, metavar="N", help="the most rows (default: %(default)s)")
LIMIT_HANDLERS = """
SELECT l.name, h.handler FROM pgqueue_limit_handler AS h JOIN pgqueue_limit AS l ON l.id = h.limit_id ORDER BY h.handler
"""
QUEUE_SETTINGS = (
    "max_concurrency", "rate", "fairness", "max_share", "archive", "retention", "dead_letter_retention", "events"
)  # fmt: skip
CHANNEL_SETTINGS = ("max_concurrency", "rate", "max_size", "full_policy", "weight", "ordered", "archive")
CHANNEL_COUNTS = ("ready", "leased", "scheduled", "waiting_for_limit", "waiting_for_order_key", "dead")
MESSAGE_COLUMNS = (
    "id", "queue", "channel", "handler", "status", "attempts", "dequeue_at", "priority", "worker", "error"
)  # fmt: skip
DEAD_COLUMNS = ("id", "queue", "channel", "handler", "reason", "attempts", "dead_at", "error")


def first_rows(run: VerbRun, found: QuerySet[Any]) -> list[Any]:
    """Return as many rows as --limit says, and warn on stderr if there are more."""
    most = run.given.limit
    rows = list(found[: most + 1])
    if len(rows) > most:
        run.warn(f"There are more than {most:,}: choose by filters, or give a higher --limit.")
    return rows[:most]


def state_of(row: Any) -> str | None:
    """Return whether a row is released or paused; None for neither."""
    return "released" if getattr(row, "released_at", None) else "paused" if row.paused_at else None


def last_error(row: Any) -> str | None:
    """Return the type of the last error of a message."""
    errors = row.errors if isinstance(row.errors, list) else []
    return errors[-1].get("type") if errors and isinstance(errors[-1], dict) else None


@verb("queues", "List the queues and their settings. pgqueue stats counts their messages.", "", QUEUE)
def list_queues(run: VerbRun) -> None:
    rows = {row.name: row for row in Queue.objects.using(run.using)}
    names = {run.given.queue} if run.given.queue else {*queue_names(using=run.using), *rows}
    found = [rows.get(name) or Queue(name=name) for name in sorted(names)]
    facts = [
        {"name": row.name, "state": state_of(row), "pause_reason": row.pause_reason, **present(row, QUEUE_SETTINGS)}
        for row in found
    ]
    run.table("queues", facts, ("name", "state", *QUEUE_SETTINGS))


@verb("channels", "List channels, their messages by state, and their limits.", "--queue mails", QUEUE, CHANNEL, ROWS)
def list_channels(run: VerbRun) -> None:
    given = run.given
    found = Channel.objects.using(run.using).filter(**matching(given, {"queue": "queue", "channel": "name"}))
    rows = first_rows(run, found.order_by("queue", "name"))
    counted = metrics(given.queue, channel=given.channel, totals=False, using=run.using)
    counts = {(each.queue, each.channel): each for each in counted}
    facts = []
    for row in rows:
        count = counts.get((row.queue, row.name))
        facts.append(
            {"queue": row.queue, "channel": row.name, "state": state_of(row), "pause_reason": row.pause_reason}
            | {name: getattr(count, name, 0) for name in CHANNEL_COUNTS}
            | present(row, CHANNEL_SETTINGS)
        )
    columns = ("queue", "channel", "state", "ready", "leased", "scheduled", "dead", *CHANNEL_SETTINGS[:3], "weight")
    run.table("channels", facts, columns)


@verb("messages", "List live messages, the oldest first.", "--queue mails --status leased", *MESSAGES, ROWS)
def list_messages(run: VerbRun) -> None:
    found = chosen_messages(run.given, run.using).select_related("channel").defer("payload", "body", "headers", "state")
    facts = [
        {
            "id": row.pk, "queue": row.channel.queue, "channel": row.channel.name, "handler": row.handler,
            "status": row.get_status_display(), "attempts": row.attempts, "max_attempts": row.max_attempts,
            "priority": row.priority, "dequeue_at": row.dequeue_at, "worker": row.worker,
            "created_at": row.created_at, "error": last_error(row),
        }
        for row in first_rows(run, found.order_by("id"))
    ]  # fmt: skip
    run.table("messages", facts, MESSAGE_COLUMNS)


@verb("dead", "List dead letters that were not redriven, the oldest first.", "--handler mail.send", *DEAD, ROWS)
def list_dead(run: VerbRun) -> None:
    found = chosen_dead(run.given, run.using).defer("payload", "body", "headers", "state", "details")
    rows = first_rows(run, found.order_by("id"))
    facts = [{"error": last_error(row), **present(row, DEAD_COLUMNS[:-1])} for row in rows]
    run.table("dead_letters", facts, DEAD_COLUMNS)


@verb("schedules", "List the schedules, and when each fires next.", "", QUEUE, CHANNEL, HANDLER, ROWS)
def list_schedules(run: VerbRun) -> None:
    lookups = {name: name for name in ("queue", "channel", "handler")}
    found = Schedule.objects.using(run.using).filter(**matching(run.given, lookups)).order_by("name")
    facts = [
        {
            "name": row.name, "handler": row.handler, "queue": row.queue, "channel": row.channel,
            "when": f"every {row.every}" if row.every else f"{row.cron} {row.time_zone}",
            "state": "enabled" if row.enabled else "disabled", "next": row.next_fire_at, "last": row.last_fired_at,
            "error": row.last_error, "declared_in": row.declared_in,
        }
        for row in first_rows(run, found)
    ]  # fmt: skip
    run.table("schedules", facts, ("name", "handler", "queue", "channel", "when", "state", "next", "last", "error"))


@verb("limits", "List the shared limits, their use, and why messages wait for them.", "", HANDLER, ROWS)
def list_limits(run: VerbRun) -> None:
    handlers = defaultdict[str, list[str]](list)
    for name, handler in call(run.using, LIMIT_HANDLERS):
        handlers[name].append(handler)
    found = SharedLimit.objects.using(run.using).filter(breaker_handler=None, parent_id=None).order_by("name")
    if run.given.handler is not None:
        found = found.filter(name__in=[name for name, names in handlers.items() if run.given.handler in names])
    used = {limit.name: limit for limit in limit_health(using=run.using) if limit.kind == "shared"}
    facts = [
        {
            "name": row.name, "state": state_of(row), "pause_reason": row.pause_reason,
            **present(row, ("max_concurrency", "max_cost", "rate", "per")),
            "leased": getattr(used.get(row.name), "places", 0), "waiting": getattr(used.get(row.name), "waiting", 0),
            "why": getattr(used.get(row.name), "why", None), "handlers": handlers[row.name],
        }
        for row in first_rows(run, found)
    ]  # fmt: skip
    columns = ("name", "state", "max_concurrency", "max_cost", "rate", "per", "leased", "waiting", "why", "handlers")
    run.table("limits", facts, columns)


@verb("breakers", "List the breakers of handlers, and the open ones of channels.", "", QUEUE, CHANNEL, HANDLER)
def list_breakers(run: VerbRun) -> None:
    wanted = matching(run.given, {name: name for name in ("queue", "channel", "handler")})
    rows = [row for row in breakers(using=run.using) if all(getattr(row, k) == v for k, v in wanted.items())]
    columns = ("handler", "queue", "channel", "per", "state", "until", "waiting", "openings")
    shown = [{**row.as_json(), "waiting": row.waiting_text} for row in rows]
    run.show(run.grid(shown, columns) if rows else ["No breakers."], breakers=[row.as_json() for row in rows])


@verb("workers", "List the worker processes, as they last described themselves.", "", QUEUE, ROWS)
def list_workers(run: VerbRun) -> None:
    found = Worker.objects.using(run.using).order_by("name")
    if run.given.queue is not None:
        found = found.filter(queues__contains=[run.given.queue])
    now = clock(run.using)
    facts = [
        {
            "name": row.name, "queues": row.queues, "concurrency": row.concurrency, "running": len(row.running),
            "state": "silent" if now - row.heartbeat_at > settings.LEASE else state_of(row) or row.state,
            "pause_reason": row.pause_reason, "started_at": row.started_at, "heartbeat_at": row.heartbeat_at,
            "version": row.version,
        }
        for row in first_rows(run, found)
    ]  # fmt: skip
    columns = ("name", "queues", "concurrency", "running", "state", "started_at", "heartbeat_at", "version")
    run.table("workers", facts, columns)
