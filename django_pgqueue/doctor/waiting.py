"""Find channels that wait for long, and queues that no worker serves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, age_text, list_text, safe_name
from django_pgqueue.lifecycle.health import QueueHealth, health
from django_pgqueue.sql.call import call

# A released channel drains also when it is paused.
WAITING = """
SELECT w.queue, w.channel, clock_timestamp() - w.oldest_at,
    CASE WHEN q.paused_at IS NOT NULL THEN 'queue' WHEN p.paused_at IS NOT NULL THEN 'channel' END,
    CASE WHEN q.paused_at IS NOT NULL THEN q.paused_until ELSE p.paused_until END IS NULL,
    w.complete,
    (SELECT m.id FROM pgqueue_lane AS l JOIN pgqueue_message AS m ON m.id = l.current_id
    WHERE c.ordered AND l.channel_id = c.id
        AND (m.status = 1 AND m.held_until > clock_timestamp() OR m.waits_for >= 0))
FROM pgqueue_waiting(%s) AS w
JOIN pgqueue_channel AS c ON c.id = w.channel_id
LEFT JOIN pgqueue_channel AS p ON p.id = c.id AND p.released_at IS NULL
LEFT JOIN pgqueue_queue AS q ON q.name = c.queue
WHERE w.oldest_at < clock_timestamp() - %s::interval
ORDER BY w.oldest_at
"""

LEASED = """
SELECT EXISTS (
    SELECT FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
    WHERE m.lease_expires_at > clock_timestamp() AND c.queue = %s)
"""


class WaitingChannel(NamedTuple):
    """Hold a channel that waits. ``paused``: what is paused, "queue" or "channel"; None: neither.

    ``is_endless``: the pause has no end. ``held_by``: the message that holds an ordered channel.
    """

    queue: str
    channel: str
    age: timedelta
    paused: str | None
    is_endless: bool
    complete: bool
    held_by: int | None


def examine_waiting(using: str, limits: Limits) -> Iterator[Finding]:
    """Report queues without workers, and channels that wait for long."""
    unserved = {row.queue for row in health(most=limits.most, using=using) if is_unserved(row, using)}
    yield from map(no_worker, sorted(unserved))
    longest = settings.WAITING_WARNING if limits.waiting is None else limits.waiting
    queues: dict[tuple[str, str, bool], list[WaitingChannel]] = defaultdict(list)
    for row in map(WaitingChannel._make, call(using, WAITING, (limits.most, longest))):
        queues[row.queue, row.paused or "", row.paused is None and row.held_by is not None].append(row)
    for (queue, paused, is_held), rows in sorted(queues.items()):
        if paused:
            yield paused_waits(queue, rows, paused)
        elif is_held:
            yield held_waits(queue, rows)
        elif queue not in unserved:
            yield long_waits(queue, rows)


def is_unserved(row: QueueHealth, using: str) -> bool:
    """Return whether messages of the queue are ready, or wait for a limit, and no worker takes them.

    A lease that has not expired may be that of a consumer by plain SQL, which sends no heartbeat of a worker.
    """
    if row.paused or row.workers > 0 or row.ready + row.waiting_for_limit == 0:
        return False
    return row.leased == 0 or not call(using, LEASED, (row.queue,))[0][0]


def no_worker(queue: str) -> Finding:
    """Report a queue that no worker serves."""
    return Finding(
        "no_worker",
        Severity.CRITICAL,
        f"The queue {safe_name(queue)} has messages that wait, and no worker serves it.",
        f"Start a worker: manage.py runqueueworker --queue {safe_name(queue)}.",
        {"queue": queue},
    )


def long_waits(queue: str, rows: list[WaitingChannel]) -> Finding:
    """Report channels of a queue that wait for long."""
    return Finding(
        "waiting",
        Severity.WARNING,
        f"{channel_count_text(rows)} channel(s) of the queue {safe_name(queue)} wait for long, the longest for "
        f"{age_text(rows[0].age)}: {list_text([row.channel for row in rows])}.",
        f"See what a channel waits for: manage.py pgqueue explain channel NAME --queue {safe_name(queue)}. Start more "
        "workers, or raise the limit that it names.",
        wait_facts(queue, rows),
    )


def held_waits(queue: str, rows: list[WaitingChannel]) -> Finding:
    """Report ordered channels of a queue that a message holds: it failed, was deferred, or waits for a limit."""
    return Finding(
        "held",
        Severity.WARNING,
        f"{channel_count_text(rows)} ordered channel(s) of the queue {safe_name(queue)} wait for long, the longest for "
        f"{age_text(rows[0].age)}, behind a message that is tried again, or waits for a shared limit: "
        f"{list_text([f'{row.channel} (message {row.held_by})' for row in rows])}.",
        "Look at the message in the admin: it has its errors, and what it waits for. manage.py pgqueue retry message "
        "ID delivers a failed one now; cancel message ID or discard message ID lets the others go on.",
        wait_facts(queue, rows),
    )


def paused_waits(queue: str, rows: list[WaitingChannel], paused: str) -> Finding:
    """Report a paused queue, or paused channels of a queue, with messages that wait. It is a warning if a pause has no
    end, because it may be forgotten.

    ``paused``: "queue" or "channel".
    """
    name, waits = safe_name(queue), f"the longest for {age_text(rows[0].age)}: {list_text([r.channel for r in rows])}"
    if paused == "queue":
        problem = f"The queue {name} is paused, and {channel_count_text(rows)} channel(s) of it wait, {waits}."
        target = f"queue {name}"
    else:
        problem = f"{channel_count_text(rows)} channel(s) of the queue {name} are paused and have messages, {waits}."
        target = f"channel NAME --queue {name}"
    return Finding(
        "paused",
        Severity.WARNING if any(row.is_endless for row in rows) else Severity.NOTE,
        problem,
        f"See since when and why: manage.py pgqueue explain channel {safe_name(rows[0].channel)} --queue {name}. "
        f"Resume when the reason is gone: manage.py pgqueue resume {target}.",
        wait_facts(queue, rows) | {"paused": paused, "endless": any(row.is_endless for row in rows)},
    )


def channel_count_text(rows: list[WaitingChannel]) -> str:
    """Return the number of channels, as text."""
    return str(len(rows)) if rows[0].complete else f"at least {len(rows)}"


def wait_facts(queue: str, rows: list[WaitingChannel]) -> dict[str, Any]:
    """Return the facts of a finding."""
    return {
        "queue": queue,
        "channels": len(rows),
        "complete": rows[0].complete,
        "shown": [{"channel": row.channel, "seconds": row.age.total_seconds()} for row in rows[:SHOWN_NAMES]],
    }
