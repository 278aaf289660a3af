from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models.functions import Coalesce

from django_pgqueue.lifecycle.channel_pause import channel_pause
from django_pgqueue.lifecycle.channel_resume import channel_resume
from django_pgqueue.lifecycle.handler_pause import handler_pause
from django_pgqueue.lifecycle.handler_resume import handler_resume
from django_pgqueue.lifecycle.limit_pause import limit_pause
from django_pgqueue.lifecycle.limit_resume import limit_resume
from django_pgqueue.lifecycle.queue_pause import queue_pause
from django_pgqueue.lifecycle.queue_resume import queue_resume
from django_pgqueue.management.acting import ActingCommand, clock, errors_as_command_errors, has_queue, seconds
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Channel, SharedLimit, Worker
from django_pgqueue.models.expressions import ClockTimestamp

WHAT = ("queue", "channel", "handler", "limit", "worker")


class Command(ActingCommand):
    help = (
        "Pauses a queue, a channel, a handler, a shared limit or a worker, or resumes it. Enqueue goes on, and leased "
        "messages can be settled."
    )

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("--queue", metavar="NAME", help="the whole queue; with --channel, the queue of the channel")
        parser.add_argument("--channel", metavar="NAME", help="a channel (of the queue default, without --queue)")
        parser.add_argument("--handler", metavar="NAME", help="a handler: its messages of all channels")
        parser.add_argument("--limit", metavar="NAME", help="a shared limit: all messages that have it")
        parser.add_argument("--worker", metavar="NAME", help="a worker")
        parser.add_argument("--reason", default="", help="shown in the admin, by queueexplain and by queuedoctor")
        parser.add_argument(
            "--for",
            dest="seconds",
            type=seconds,
            metavar="SECONDS",
            help="after this time the sweep resumes it (not for a worker)",
        )
        parser.add_argument("--resume", action="store_true", help="end the pause")

    def handle(self, *, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        what, text = target(given)
        if given["resume"] and (given["reason"] or given["seconds"]):
            raise CommandError("--resume cannot be combined with --reason or --for.")
        if given["worker"] and given["seconds"]:
            raise CommandError("--for is not for workers: resume a worker with --resume.")
        facts = {"action": "resume" if given["resume"] else "pause", **what, "dry_run": dry_run}
        with errors_as_command_errors(using):
            if dry_run:
                require_target(what, using)
            else:
                switch(what, given, using)
        word = {True: "would be ", False: "is "}[dry_run] + ("resumed" if given["resume"] else "paused")
        self.answer(form, f"{text} {word}.", facts)


def target(given: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Return the names that the options give, and the same as text. Raises CommandError."""
    queue, channel = given["queue"], given["channel"]
    for what in ("worker", "handler", "limit"):
        if given[what] is None:
            continue
        if any(given[other] is not None for other in WHAT if other != what):
            raise CommandError(f"--{what} cannot be combined with another of --{', --'.join(WHAT)}.")
        return {what: given[what]}, f"{what} {given[what]}"
    if channel is not None:
        return {"queue": queue or "default", "channel": channel}, f"channel {queue or 'default'}/{channel}"
    if queue is not None:
        return {"queue": queue}, f"queue {queue}"
    raise CommandError(f"Name what to pause or resume: --{', --'.join(WHAT)}.")


def require_target(what: dict[str, str], using: str) -> None:
    """Raise CommandError if the worker, limit, channel or queue does not exist. Handlers may be those of other
    projects."""
    if "handler" in what:
        return
    if "worker" in what:
        there = Worker.objects.using(using).filter(name=what["worker"]).exists()
    elif "limit" in what:
        there = SharedLimit.objects.using(using).filter(name=what["limit"]).exists()
    elif "channel" in what:
        there = Channel.objects.using(using).filter(queue=what["queue"], name=what["channel"]).exists()
    else:
        there = has_queue(what["queue"], using)
    if not there:
        kind = next((kind for kind in ("worker", "limit") if kind in what), "channel or queue")
        raise CommandError(f"There is no such {kind}: {what}.")


def switch(what: dict[str, str], given: dict[str, Any], using: str) -> None:
    """Pause or resume the worker, handler, limit, channel or queue."""
    reason, length = given["reason"], given["seconds"]
    until = clock(using) + length if isinstance(length, timedelta) else None
    match what:
        case {"worker": name}:
            require_target(what, using)
            row = Worker.objects.using(using).filter(name=name)
            if given["resume"]:
                row.update(paused_at=None, pause_reason="")
            else:
                row.update(paused_at=Coalesce("paused_at", ClockTimestamp()), pause_reason=reason)
        case {"handler": name}:
            if given["resume"]:
                handler_resume(name, using=using)
            else:
                handler_pause(name, reason=reason, until=until, using=using)
        case {"limit": name}:
            if given["resume"]:
                limit_resume(name, using=using)
            else:
                limit_pause(name, reason=reason, until=until, using=using)
        case {"channel": name, "queue": queue}:
            if given["resume"]:
                channel_resume(channel=name, queue=queue, using=using)
            else:
                channel_pause(channel=name, queue=queue, reason=reason, until=until, using=using)
        case {"queue": queue}:
            if given["resume"]:
                queue_resume(queue, using=using)
            else:
                queue_pause(queue, reason=reason, until=until, using=using)
