"""Count the live messages of one page's channels, in one query whose cost is bounded whatever the backlog is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_pgqueue.admin.paginator import CappedCount
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most ready and the most leased messages that are counted per channel."""
MOST_SCHEDULED = 10_000
"""The most scheduled messages that are read, over all channels, since no index has the channel. If there are more, all
counts are lower bounds."""

SQL = """
WITH coming AS MATERIALIZED (
    SELECT m.channel_id FROM pgqueue_message AS m WHERE m.status = 3 ORDER BY m.dequeue_at LIMIT %s
),
scheduled AS (
    SELECT s.channel_id, count(*) AS messages FROM coming AS s GROUP BY s.channel_id
)
SELECT c.id,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 1 LIMIT %s) AS ready),
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 2 LIMIT %s) AS leased),
    coalesce(s.messages, 0),
    (SELECT count(*) FROM coming)
FROM unnest(%s::bigint[]) AS c (id)
LEFT JOIN scheduled AS s ON s.channel_id = c.id
"""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    ready: int
    leased: int
    scheduled: int


def live_counts(channel_ids: Sequence[int], *, using: str) -> dict[int, LiveCounts]:
    """Return the live messages by channel id."""
    rows = call(using, SQL, (MOST_SCHEDULED + 1, MOST_COUNTED + 1, MOST_COUNTED + 1, list(channel_ids)))
    return {
        pk: LiveCounts(
            ready=CappedCount(MOST_COUNTED) if ready > MOST_COUNTED else ready,
            leased=CappedCount(MOST_COUNTED) if leased > MOST_COUNTED else leased,
            scheduled=CappedCount(scheduled) if coming > MOST_SCHEDULED else scheduled,
        )
        for pk, ready, leased, scheduled, coming in rows
    }
