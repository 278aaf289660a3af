from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import Q
from django.db.models.functions import Coalesce

from django_pgqueue import handlers
from django_pgqueue.lifecycle.channel_pause import channel_pause
from django_pgqueue.lifecycle.channel_resume import channel_resume
from django_pgqueue.lifecycle.handler_pause import handler_pause
from django_pgqueue.lifecycle.handler_resume import handler_resume
from django_pgqueue.lifecycle.limit_pause import limit_pause
from django_pgqueue.lifecycle.limit_resume import limit_resume
from django_pgqueue.lifecycle.queue_pause import queue_pause
from django_pgqueue.lifecycle.queue_resume import queue_resume
from django_pgqueue.limits import HANDLER_PREFIX
from django_pgqueue.management.acting import ActingCommand, clock, errors_as_command_errors, has_queue, seconds
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Channel, Queue, SharedLimit, Worker
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.redaction import printable

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
        facts: dict[str, Any] = {"action": "resume" if given["resume"] else "pause", **what, "dry_run": dry_run}
        with errors_as_command_errors(using):
            if given["resume"]:
                facts["was_paused"] = is_paused(what, using)
            elif "handler" in what and not is_known(what["handler"], using):
                self.stderr.write(
                    f"No installed app and no worker has a handler {printable(what['handler'])!r}: is the name right?"
                )
            if dry_run:
                require_target(what, text, using)
            else:
                switch(what, text, given, using)
        if given["resume"] and not facts["was_paused"]:
            self.answer(form, f"{text} was not paused.", facts)
            return
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


def require_target(what: dict[str, str], text: str, using: str) -> None:
    """Raise CommandError if the worker, limit, channel or queue does not exist. Handlers may be those of other
    projects. ``text``: its kind and name."""
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
        raise CommandError(printable(f"There is no {text}."))


def is_paused(what: dict[str, str], using: str) -> bool:
    """Return whether the worker, handler, limit, channel or queue is paused now."""
    match what:
        case {"worker": name}:
            row: Any = Worker.objects.using(using).filter(name=name)
        case {"handler": name}:
            row = SharedLimit.objects.using(using).filter(name=HANDLER_PREFIX + name)
        case {"limit": name}:
            row = SharedLimit.objects.using(using).filter(name=name)
        case {"channel": name, "queue": queue}:
            row = Channel.objects.using(using).filter(queue=queue, name=name)
        case {"queue": queue}:
            row = Queue.objects.using(using).filter(name=queue)
    return bool(row.filter(paused_at__isnull=False).exists())


def is_known(handler: str, using: str) -> bool:
    """Return whether an installed app has the handler, a worker reports it, or it was paused or limited before.

    A worker of an older release does not report its handlers; it may have any.
    """
    if handlers.find(handler) is not None:
        return True
    workers = Worker.objects.using(using).filter(Q(handlers__isnull=True) | Q(handlers__contains=[handler]))
    return workers.exists() or SharedLimit.objects.using(using).filter(name=HANDLER_PREFIX + handler).exists()


def switch(what: dict[str, str], text: str, given: dict[str, Any], using: str) -> None:
    """Pause or resume the worker, handler, limit, channel or queue. ``text``: its kind and name."""
    reason, length = given["reason"], given["seconds"]
    until = clock(using) + length if isinstance(length, timedelta) else None
    match what:
        case {"worker": name}:
            require_target(what, text, using)
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
