"""Find channels that wait for long, and queues that no worker serves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import SHOWN, Finding, Limits, Severity, listed, name, words
from django_pgqueue.lifecycle.health import QueueHealth, health
from django_pgqueue.sql.call import call

WAITING = """
SELECT w.queue, w.channel, clock_timestamp() - w.oldest_at,
    c.paused_at IS NOT NULL OR EXISTS (
        SELECT FROM pgqueue_queue AS q WHERE q.name = c.queue AND q.paused_at IS NOT NULL),
    w.complete
FROM pgqueue_waiting(%s) AS w
JOIN pgqueue_channel AS c ON c.id = w.channel_id
WHERE w.oldest_at < clock_timestamp() - %s::interval
ORDER BY w.oldest_at
"""


class Waiting(NamedTuple):
    """Hold a channel that waits."""

    queue: str
    channel: str
    age: timedelta
    is_paused: bool
    complete: bool


def examine(using: str, limits: Limits) -> Iterator[Finding]:
    """Report queues without workers, and channels that wait for long."""
    unserved = {row.queue for row in health(most=limits.most, using=using) if is_unserved(row)}
    yield from map(no_worker, sorted(unserved))
    longest = settings.WAITING_WARNING if limits.waiting is None else limits.waiting
    queues: dict[tuple[str, bool], list[Waiting]] = defaultdict(list)
    for row in map(Waiting._make, call(using, WAITING, (limits.most, longest))):
        queues[row.queue, row.is_paused].append(row)
    for (queue, is_paused), rows in sorted(queues.items()):
        if is_paused:
            yield paused(queue, rows)
        elif queue not in unserved:
            yield waiting(queue, rows)


def is_unserved(row: QueueHealth) -> bool:
    """Return whether messages of the queue are ready and no worker takes them."""
    return row.ready > 0 and row.leased == 0 and row.workers == 0 and not row.paused


def no_worker(queue: str) -> Finding:
    """Report a queue that no worker serves."""
    return Finding(
        "no_worker",
        Severity.CRITICAL,
        f"The queue {name(queue)} has ready messages, and no worker serves it.",
        f"Start a worker: manage.py runqueueworker --queue {name(queue)}.",
        {"queue": queue},
    )


def waiting(queue: str, rows: list[Waiting]) -> Finding:
    """Report channels of a queue that wait for long."""
    return Finding(
        "waiting",
        Severity.WARNING,
        f"{count(rows)} channel(s) of the queue {name(queue)} wait for long, the longest for {words(rows[0].age)}: "
        f"{listed([row.channel for row in rows])}.",
        "Start more workers, or raise a limit that is too low. See production.md, When something is wrong.",
        facts(queue, rows),
    )


def paused(queue: str, rows: list[Waiting]) -> Finding:
    """Report paused channels of a queue that have messages."""
    return Finding(
        "paused",
        Severity.NOTE,
        f"{count(rows)} channel(s) of the queue {name(queue)} have messages and are paused: "
        f"{listed([row.channel for row in rows])}.",
        "Call channel_resume or queue_resume when the reason is gone.",
        facts(queue, rows),
    )


def count(rows: list[Waiting]) -> str:
    """Return the number of channels, as text."""
    return str(len(rows)) if rows[0].complete else f"at least {len(rows)}"


def facts(queue: str, rows: list[Waiting]) -> dict[str, Any]:
    """Return the facts of a finding."""
    return {
        "queue": queue,
        "channels": len(rows),
        "complete": rows[0].complete,
        "shown": [{"channel": row.channel, "seconds": row.age.total_seconds()} for row in rows[:SHOWN]],
    }
