"""Count the live messages of one page's channels, in one query whose cost is bounded whatever the backlog is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import CappedCount, capped
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most messages of each state that are counted per channel."""
WAITING_TEXT = _(
    "%(ready)s ready, %(scheduled)s scheduled, %(waiting_for_limit)s waiting for a limit, "
    "%(waiting_for_order_key)s waiting for their order key"
)
LIVE_TEXT = _(
    "%(ready)s ready, %(leased)s leased, %(scheduled)s scheduled, %(waiting_for_limit)s waiting for a limit, "
    "%(waiting_for_order_key)s waiting for their order key"
)

SQL = """
SELECT c.id,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 1 LIMIT %(most)s) AS ready),
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 2 LIMIT %(most)s) AS leased),
    s.messages, s.limited, s.keyed
FROM unnest(%(channels)s::bigint[]) AS c (id)
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, count(*) FILTER (WHERE n.waits_for >= 0) AS limited,
        count(*) FILTER (WHERE n.waits_for < 0) AS keyed
    FROM (
        SELECT m.waits_for FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 3 LIMIT %(most)s
    ) AS n
) AS s
"""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """Hold the live messages of a channel. ``waiting_for_limit``: those that wait for a full shared limit;
    ``waiting_for_order_key``: for the message before them of their order key; ``scheduled``: for their time."""

    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int
    waiting_for_order_key: int


def live_counts(channel_ids: Sequence[int], *, using: str) -> dict[int, LiveCounts]:
    """Return the live messages by channel id."""
    rows = call(using, SQL, {"most": MOST_COUNTED + 1, "channels": list(channel_ids)})
    return {
        pk: LiveCounts(capped(ready, MOST_COUNTED), capped(leased, MOST_COUNTED), *split(messages, limited, keyed))
        for pk, ready, leased, messages, limited, keyed in rows
    }


def split(messages: int, limited: int, keyed: int) -> tuple[int, int, int]:
    """Return how many of the messages that were read wait for their time, for a limit, and for their order key. They
    are lower bounds if there are more."""
    timed = messages - limited - keyed
    if messages <= MOST_COUNTED:
        return timed, limited, keyed
    return lower_bound(timed), lower_bound(limited), lower_bound(keyed)


def lower_bound(count: int) -> int:
    """Return a count that says of itself that it is a lower bound."""
    return CappedCount(min(count, MOST_COUNTED))
