"""Purge, release, drop and erase."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

import django_pgqueue as pgqueue
from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.channels import ChannelErased
from django_pgqueue.lifecycle.queues import QueueDropped
from django_pgqueue.management.cli.lake import erase_lake
from django_pgqueue.management.cli.options import NAME, OF_QUEUE, option
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.models import Channel, Message, Schedule

# Each batch is a transaction: locks are short, and purged messages stay purged.
BATCH_MESSAGES = 10_000


def waiting_count(run: VerbRun) -> int:
    """Return the number of messages that wait in the queue, or on the channel."""
    names = {"queue": "channel__queue", "channel": "channel__name"}
    found = Message.objects.using(run.using).filter(**{names[thing]: name for thing, name in run.names.items()})
    return found.exclude(status=Message.Status.LEASED).count()


@verb(
    "purge queue",
    "Archive the messages that wait in a queue. Leased ones stay.",
    "mails",
    NAME,
    changes=True,
    asks=True,
)
@verb(
    "purge channel", "Archive the messages that wait on a channel, not leased ones.", "acme --queue mails",
    NAME, OF_QUEUE, changes=True, asks=True,
)  # fmt: skip
def purge(run: VerbRun) -> None:
    """Purge as many messages as wait at the beginning, because producers may be faster than a purge."""
    run.require()
    count = left = waiting_count(run)
    if not run.dry_run:
        step: Any = pgqueue.channel_purge if run.thing == "channel" else pgqueue.queue_purge
        count = 0
        while batch := step(**run.names, limit=min(BATCH_MESSAGES, max(left - count, 0)), using=run.using):
            count += batch
    run.answer(f"{count} {'would be purged' if run.dry_run else 'purged'}", **run.names, messages=count)


@verb(
    "release channel", "Close a channel to new messages; when it has drained, it is removed.", "acme --queue mails",
    NAME, OF_QUEUE, changes=True, asks=True,
)  # fmt: skip
def release_channel(run: VerbRun) -> None:
    run.require()
    if not run.dry_run:
        pgqueue.channel_release(channel=run.given.name, queue=run.given.queue, using=run.using)
    run.done("released")


@verb("drop limit", "Delete a shared limit; its messages run without it.", "stripe", NAME, changes=True, asks=True)
def drop_limit(run: VerbRun) -> None:
    run.require()
    if not run.dry_run:
        pgqueue.limit_drop(run.given.name, using=run.using)
    run.done("dropped")


@verb("drop schedule", "Delete a schedule; its messages and ticks stay.", "nightly", NAME, changes=True, asks=True)
def drop_schedule(run: VerbRun) -> None:
    rows = run.require()
    declared_in = rows.values_list("declared_in", flat=True).get()
    if not run.dry_run:
        rows.delete()
    run.done("dropped", f"; a worker that has {declared_in} makes it again." if declared_in else ".")


@verb(
    "drop queue", "Drop a queue with its channels and schedules. The archive and the dead letters stay.",
    "mails --purge", NAME,
    option("--purge", action="store_true", help="archive the messages that wait; else they make it refuse"),
    changes=True, asks=True,
)  # fmt: skip
def drop_queue(run: VerbRun) -> None:
    run.require()
    total, step = {"messages": 0, "channels": 0, "schedules": 0}, None
    # In steps, until the queue is gone, or a step changed nothing because other transactions hold the rest.
    while step is None or not (step.done or step.blocked):
        more: dict[str, Any] = {"purge": run.given.purge, "limit": BATCH_MESSAGES, "using": run.using}
        step = foreseen(run) if run.dry_run else pgqueue.queue_drop(queue=run.given.name, **more)
        total = {what: count + getattr(step, what) for what, count in total.items()}
    text = (
        f": {total['messages']} messages purged, {total['channels']} channels released, {total['schedules']} "
        "schedules deleted"
    )
    run.done("dropped" if step.done else "not dropped yet", text, done=step.done, **total)
    if not step.done:
        raise CommandError("Other transactions hold messages, channels or schedules of the queue: try again.")


def foreseen(run: VerbRun) -> QueueDropped:
    """Return what a drop would do now. Raises CommandError if it would be refused."""
    name, using = run.given.name, run.using
    held = Message.objects.using(using).filter(channel__queue=name, status=Message.Status.LEASED).count()
    left = waiting_count(run)
    if held or (left and not run.given.purge):
        raise CommandError(f"Queue {name!r} holds {held} leased and {left} waiting messages: a drop would be refused.")
    channels = Channel.objects.using(using).filter(queue=name, released_at=None).count()
    return QueueDropped(True, left, channels, Schedule.objects.using(using).filter(queue=name).count())


@verb(
    "erase channel", "Erase a tenant: remove all rows of a channel, also from archive, dead letters and figures.",
    "acme --queue mails --dry-run", NAME, OF_QUEUE,
    option("--force", action="store_true", help="messages under lease, too; their holders cannot settle them"),
    option("--lake", nargs="?", const="", metavar="PATH", help="in the lake, too (default: the setting LAKE)"),
    changes=True, asks=True,
)  # fmt: skip
def erase_channel(run: VerbRun) -> None:
    lake = run.given.lake
    if lake == "" and settings.LAKE is None:
        raise CommandError("Give --lake a path, or set LAKE.")

    def erase() -> ChannelErased:
        return pgqueue.channel_erase(
            queue=run.given.queue, channel=run.given.name, force=run.given.force, dry_run=run.dry_run, using=run.using
        )

    report = erase()
    erased, left = (
        ", ".join(f"{count:,} {table}" for table, count in rows.items()) for rows in (report.erased, report.left)
    )
    word = "erased" if report.done or run.dry_run else "not erased yet"
    facts = {"done": report.done, "erased": report.erased, "left": report.left, "leased": report.leased}
    run.done(word, f": {erased or 'no rows'}" + (f"; left: {left}" if left else ""), **facts)
    if lake is not None:
        erase_lake(run.given.queue, run.given.name, lake, run.using, dry_run=run.dry_run)
        # A rollup may have loaded rows of the lake meanwhile.
        report = report if run.dry_run else erase()
    if report.leased and not run.dry_run:
        raise CommandError(
            f"Workers hold leases on {report.leased:,} messages. The channel stays paused: run it again when they have "
            "ended, or with --force."
        )
    if not (report.done or run.dry_run):
        raise CommandError("Other transactions hold rows of the channel, or may still bring some: run it again.")
