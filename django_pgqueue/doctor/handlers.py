"""Messages whose handler no worker has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import SHOWN, Finding, Limits, Severity, listed, name, words
from django_pgqueue.sql.call import call

# Workers of a release that does not say which handlers it has may have any. Without a worker, no_worker says it.
UNKNOWN = """
WITH live AS (
    SELECT w.queues, w.handlers FROM pgqueue_worker AS w WHERE w.heartbeat_at >= clock_timestamp() - %s::interval
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
SELECT n.queue, n.handler, n.messages, clock_timestamp() - n.oldest_at
FROM waiting AS n
WHERE EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue)
    AND NOT EXISTS (SELECT FROM live AS l WHERE l.queues ? n.queue AND (l.handlers IS NULL OR l.handlers ? n.handler))
ORDER BY n.queue, n.oldest_at
"""

Row = tuple[str, str, int, timedelta]


def examine(using: str, limits: Limits) -> Iterator[Finding]:
    queues: defaultdict[str, list[Row]] = defaultdict(list)
    for row in call(using, UNKNOWN, (settings.LEASE, limits.most)):
        queues[row[0]].append(row)
    yield from (unknown(queue, rows) for queue, rows in queues.items())


def unknown(queue: str, rows: list[Row]) -> Finding:
    messages = sum(row[2] for row in rows)
    oldest = max(row[3] for row in rows)
    return Finding(
        "unknown_handler",
        Severity.WARNING,
        f"{messages} message(s) of the queue {name(queue)} are for handlers that none of its workers has, the oldest "
        f"for {words(oldest)}: {listed([row[1] for row in rows])}.",
        "Is the release of the workers older than that of the enqueuers, or a name wrong? Each becomes a dead letter "
        f"(rejected) {words(settings.UNKNOWN_HANDLER_GRACE)} after a worker first took it. Deploy, then redrive those.",
        {
            "queue": queue, "messages": messages, "seconds": oldest.total_seconds(), "handlers": len(rows),
            "shown": [row[1] for row in rows[:SHOWN]],
        },
    )  # fmt: skip
