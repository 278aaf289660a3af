"""Count the live messages of one page's channels, in one query whose cost is bounded whatever the backlog is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_pgqueue.admin.paginator import CappedCount
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most messages of each state that are counted per channel."""

SQL = """
SELECT c.id,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 1 LIMIT %(most)s) AS ready),
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 2 LIMIT %(most)s) AS leased),
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 3 LIMIT %(most)s) AS scheduled)
FROM unnest(%(channels)s::bigint[]) AS c (id)
"""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    ready: int
    leased: int
    scheduled: int


def live_counts(channel_ids: Sequence[int], *, using: str) -> dict[int, LiveCounts]:
    """Return the live messages by channel id."""
    rows = call(using, SQL, {"most": MOST_COUNTED + 1, "channels": list(channel_ids)})
    return {pk: LiveCounts(*(capped(count) for count in counts)) for pk, *counts in rows}


def capped(count: int) -> int:
    """Return a count that says of itself whether it is a lower bound."""
    return CappedCount(MOST_COUNTED) if count > MOST_COUNTED else count
