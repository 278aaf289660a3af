"""Count the live messages of one page's channels, in one query whose cost is bounded whatever the backlog is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_pgqueue.admin.paginator import CappedCount, capped
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most messages of each state that are counted per channel."""

SQL = """
SELECT c.id,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 1 LIMIT %(most)s) AS ready),
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 2 LIMIT %(most)s) AS leased),
    s.messages, s.waiting
FROM unnest(%(channels)s::bigint[]) AS c (id)
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, count(*) FILTER (WHERE n.waits_for >= 0) AS waiting
    FROM (
        SELECT m.waits_for FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 3 LIMIT %(most)s
    ) AS n
) AS s
"""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """Hold the live messages of a channel. ``waiting_for_limit``: those that wait for a full shared limit;
    ``scheduled``: those that wait for their time."""

    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int


def live_counts(channel_ids: Sequence[int], *, using: str) -> dict[int, LiveCounts]:
    """Return the live messages by channel id."""
    rows = call(using, SQL, {"most": MOST_COUNTED + 1, "channels": list(channel_ids)})
    return {
        pk: LiveCounts(capped(ready, MOST_COUNTED), capped(leased, MOST_COUNTED), *split(messages, waiting))
        for pk, ready, leased, messages, waiting in rows
    }


def split(messages: int, waiting: int) -> tuple[int, int]:
    """Return how many of the messages that were read wait for their time, and how many for a limit. Both are lower
    bounds if there are more."""
    counts = messages - waiting, waiting
    if messages > MOST_COUNTED:
        counts = CappedCount(min(counts[0], MOST_COUNTED)), CappedCount(min(counts[1], MOST_COUNTED))
    return counts
