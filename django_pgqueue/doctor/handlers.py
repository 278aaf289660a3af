"""Find messages whose handler no worker has; for a queue without workers, those that no installed app has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, age_text, list_text, safe_name
from django_pgqueue.sql.call import call

# A process that is starting has not said what it has, and takes nothing yet; an older release never says it, and may
# have any.
UNKNOWN = """
WITH live AS (
    SELECT w.queues, w.handlers FROM pgqueue_worker AS w
    WHERE w.heartbeat_at >= clock_timestamp() - %s::interval AND w.state <> 'starting'
),
waiting AS (
    SELECT c.queue, m.handler, count(*) AS messages, min(m.created_at) AS oldest_at
    FROM (
        SELECT m.channel_id, m.handler, m.created_at FROM pgqueue_message AS m
        WHERE m.status <> 2
        ORDER BY m.id
        LIMIT %s
    ) AS m
    JOIN pgqueue_channel AS c ON c.id = m.channel_id
    GROUP BY c.queue, m.handler
)
SELECT n.queue, n.handler, n.messages, clock_timestamp() - n.oldest_at,
    EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue)
FROM waiting AS n
WHERE NOT EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue AND (l.handlers IS NULL OR l.handlers ? n.handler))
ORDER BY n.queue, n.oldest_at
"""

SCHEDULES = """
SELECT s.name FROM pgqueue_schedule AS s
WHERE s.queue = %s AND s.handler = ANY (%s) AND s.enabled AND s.removed_at IS NULL ORDER BY s.name
"""

Row = tuple[str, str, int, timedelta, bool]


def examine_handlers(using: str, limits: Limits) -> Iterator[Finding]:
    """Report messages whose handlers are missing."""
    served: defaultdict[str, list[Row]] = defaultdict(list)
    unserved: defaultdict[str, list[Row]] = defaultdict(list)
    for row in call(using, UNKNOWN, (settings.LEASE, limits.most)):
        if row[4]:
            served[row[0]].append(row)
        elif handlers.find(row[1]) is None:
            unserved[row[0]].append(row)
    for found, finding in ((served, unknown_handlers), (unserved, missing_handlers)):
        for queue, rows in found.items():
            yield with_schedules(finding(queue, rows), using, queue, rows)


def with_schedules(finding: Finding, using: str, queue: str, rows: list[Row]) -> Finding:
    """Add the schedules that enqueue such messages: they go on when the module that declared them is gone."""
    names = [name for (name,) in call(using, SCHEDULES, (queue, [row[1] for row in rows]))]
    if not names:
        return finding
    return replace(
        finding,
        problem=f"{finding.problem} Schedules enqueue them again and again: {list_text(names)}.",
        action=f"{finding.action} If the handler was deleted, end its schedule: manage.py pgqueue drop schedule NAME.",
        facts=finding.facts | {"schedules": names[:SHOWN_NAMES]},
    )


def unknown_handlers(queue: str, rows: list[Row]) -> Finding:
    """Report messages whose handler none of the queue's workers has."""
    return Finding(
        "unknown_handler",
        Severity.WARNING,
        handler_problem(queue, rows, "none of its workers has"),
        "Deploy the release that has the handlers, or correct a wrong name. Each message becomes a dead letter "
        f"(unknown_handler) {age_text(settings.UNKNOWN_HANDLER_GRACE)} after a worker first took it; redrive those "
        "afterwards.",
        handler_facts(queue, rows),
    )


def missing_handlers(queue: str, rows: list[Row]) -> Finding:
    """Report messages of an unserved queue whose handler no installed app has."""
    return Finding(
        "handler_missing",
        Severity.WARNING,
        handler_problem(queue, rows, "no installed app has, and no worker serves the queue"),
        "Correct the name where it is enqueued, or add the handler. If workers of another project have it, start them.",
        handler_facts(queue, rows),
    )


def handler_problem(queue: str, rows: list[Row], which: str) -> str:
    """Return the sentence of a finding."""
    messages, oldest = sum(row[2] for row in rows), max(row[3] for row in rows)
    return (
        f"{messages} message(s) of the queue {safe_name(queue)} are for handlers that {which}, the oldest for "
        f"{age_text(oldest)}: {list_text([row[1] for row in rows])}."
    )


def handler_facts(queue: str, rows: list[Row]) -> dict[str, Any]:
    """Return the facts of a finding."""
    return {
        "queue": queue,
        "messages": sum(row[2] for row in rows),
        "seconds": max(row[3] for row in rows).total_seconds(),
        "handlers": len(rows),
        "shown": [row[1] for row in rows[:SHOWN_NAMES]],
    }
