"""Pause and resume queues, channels, handlers, limits and workers; open and close breakers."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Q
from django.db.models.functions import Coalesce

import django_pgqueue as pgqueue
from django_pgqueue import handlers
from django_pgqueue.lifecycle.breakers import breakers
from django_pgqueue.management.cli.options import NAME, OF_QUEUE, REASON, duration, option
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import clock
from django_pgqueue.models import Worker
from django_pgqueue.models.expressions import ClockTimestamp

FOR = option("--for", dest="length", type=duration, metavar="DURATION", help="then the sweep resumes it")


def pause_channel(name: str, *, using: str, **more: Any) -> None:
    pgqueue.channel_pause(channel=name, using=using, **more)


def resume_channel(name: str, *, using: str, **more: Any) -> None:
    pgqueue.channel_resume(channel=name, using=using, **more)


def pause_worker(name: str, *, reason: str, until: datetime | None, using: str) -> None:
    paused_at = Coalesce("paused_at", ClockTimestamp())
    Worker.objects.using(using).filter(name=name).update(paused_at=paused_at, pause_reason=reason)


def resume_worker(name: str, *, using: str) -> None:
    Worker.objects.using(using).filter(name=name).update(paused_at=None, pause_reason="")


def pause(act: Any, run: VerbRun) -> None:
    given = run.given
    if run.thing != "handler":
        run.require()
    elif not is_known(run):
        run.warn(f"No installed app and no worker has a handler {given.name!r}: is the name right?")
    if not run.dry_run:
        length = getattr(given, "length", None)
        queue = {"queue": given.queue} if run.thing == "channel" else {}
        until = clock(run.using) + length if length else None
        act(given.name, **queue, reason=given.reason, until=until, using=run.using)
    run.done("paused")


def resume(act: Any, run: VerbRun) -> None:
    rows = run.rows() if run.thing == "handler" else run.require()
    was_paused = rows.filter(paused_at__isnull=False).exists()
    if not run.dry_run:
        act(run.given.name, **({"queue": run.given.queue} if run.thing == "channel" else {}), using=run.using)
    if was_paused:
        run.done("resumed", was_paused=True)
    else:
        run.answer(f"{run.subject} was not paused.", **run.names, was_paused=False)


def is_known(run: VerbRun) -> bool:
    """Return whether an installed app has the handler, a worker reports it, or it was paused or limited before.

    A worker of an older release does not report its handlers; it may have any.
    """
    name, workers = run.given.name, Worker.objects.using(run.using)
    reporting = workers.filter(Q(handlers__isnull=True) | Q(handlers__contains=[name]))
    return handlers.find(name) is not None or reporting.exists() or run.rows().exists()


for thing, what, example, stop, go in (
    ("queue", "all messages of a queue", "mails", pgqueue.queue_pause, pgqueue.queue_resume),
    ("channel", "the messages of a channel", "acme --queue mails", pause_channel, resume_channel),
    ("handler", "the messages of a handler", "mail.send", pgqueue.handler_pause, pgqueue.handler_resume),
    ("limit", "the messages that have a shared limit", "stripe", pgqueue.limit_pause, pgqueue.limit_resume),
    ("worker", "a worker", "worker-3:4711", pause_worker, resume_worker),
):
    place = (NAME, OF_QUEUE) if thing == "channel" else (NAME,)
    until = () if thing == "worker" else (FOR,)
    text = f"Pause {what}. Enqueue goes on, and leased messages can be settled."
    verb(f"pause {thing}", text, f"{example} --reason 'their API is down'", *place, REASON, *until, changes=True)(
        partial(pause, stop)
    )
    verb(f"resume {thing}", f"Resume {what}.", example, *place, changes=True)(partial(resume, go))

BREAKER = (
    option("handler", metavar="HANDLER"),
    option("--channel", metavar="NAME", help="the channel, if there is a breaker for each channel"), OF_QUEUE,
)  # fmt: skip


@verb(
    "open breaker", "Open the breaker of a handler: its messages wait, and one tries after the pause.",
    "mail.send --for 10m", *BREAKER,
    option("--for", dest="length", type=duration, metavar="DURATION",
           help="one message tries after this time (default: after the pause of the breaker)"),
    changes=True,
)  # fmt: skip
def open_breaker(run: VerbRun) -> None:
    until = clock(run.using) + run.given.length if run.given.length else None
    switch_breaker(run, partial(pgqueue.breaker_open, until=until), "open")


@verb(
    "close breaker", "Close the breaker of a handler: its messages go on at once.", "mail.send", *BREAKER, changes=True
)
def close_breaker(run: VerbRun) -> None:
    switch_breaker(run, pgqueue.breaker_close, "closed")


def switch_breaker(run: VerbRun, act: Any, word: str) -> None:
    """Do the act, or check for a dry run that there is a breaker; and answer."""
    handler, channel, queue = run.given.handler, run.given.channel, run.given.queue
    if not run.dry_run:
        act(handler, channel=channel, queue=queue, using=run.using)
    elif handler not in {row.handler for row in breakers(using=run.using)}:
        raise CommandError(f"The handler {handler!r} has no breaker. pgqueue breakers lists what there is.")
    what = handler if channel is None else f"{handler} of {queue}/{channel}"
    run.answer(f"The breaker of {what} {'would be' if run.dry_run else 'is'} {word}.", handler=handler, channel=channel)
