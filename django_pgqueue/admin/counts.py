"""Count the live messages of channels, and what shared limits have given out, at a cost that is bounded whatever the
backlog is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import CappedCount, capped
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most messages of each state that are counted per channel, and the most waiting ones per limit."""
WAITING_TEXT = _(
    "%(ready)s ready, %(scheduled)s scheduled, %(waiting_for_limit)s waiting for a limit, "
    "%(waiting_for_order_key)s waiting for their order key, %(blocked)s waiting for others"
)
LIVE_TEXT = _(
    "%(ready)s ready, %(leased)s leased, %(scheduled)s scheduled, %(waiting_for_limit)s waiting for a limit, "
    "%(waiting_for_order_key)s waiting for their order key, %(blocked)s waiting for others"
)
STATES: dict[str, dict[str, Any]] = {
    "ready": {"status__exact": 1},
    "leased": {"status__exact": 2},
    "scheduled": {"waits_for": "time"},
    "waiting_for_limit": {"waits_for": "limit"},
    "waiting_for_order_key": {"waits_for": "key"},
    "blocked": {"waits_for": "messages"},
}
"""The filters of the list of messages for each of the counts."""
LIVE = """
SELECT c.id,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 1 LIMIT %(most)s) AS ready),
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 2 LIMIT %(most)s) AS leased),
    s.messages, s.limited, s.keyed, s.blocked
FROM unnest(%(channels)s::bigint[]) AS c (id)
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, count(*) FILTER (WHERE n.waits_for >= 0) AS limited,
        count(*) FILTER (WHERE n.waits_for = -1) AS keyed,
        count(*) FILTER (WHERE n.waits_for = -2) AS blocked
    FROM (
        SELECT m.waits_for FROM pgqueue_message AS m WHERE m.channel_id = c.id AND m.status = 3 LIMIT %(most)s
    ) AS n
) AS s
"""
# The function counts at most one waiting message of each limit here: those are counted below, of breakers, too.
USAGE = """
SELECT l.id, coalesce(h.places, p.places), coalesce(h.cost, p.cost), h.tokens,
    (SELECT count(*) FROM (
        SELECT
        FROM (SELECT l.id UNION ALL SELECT r.id FROM pgqueue_limit AS r WHERE r.parent_id = l.id) AS i
        JOIN pgqueue_message AS m ON m.waits_for = i.id
        LIMIT %(most)s) AS w)
FROM pgqueue_limit AS l
-- The function does not list the rows of channels.
CROSS JOIN LATERAL (
    SELECT count(*) AS places, coalesce(sum(coalesce(m.cost, 1)), 0) AS cost
    FROM pgqueue_place AS n JOIN pgqueue_message AS m ON m.id = n.message_id AND m.leased_at = n.placed_at
    WHERE l.parent_id IS NOT NULL AND n.limit_id = l.id
) AS p
LEFT JOIN pgqueue_limit_health(1) AS h ON h.kind = 'shared' AND h.name = l.name
WHERE l.id = ANY (%(ids)s::bigint[])
"""
# A row of a channel has the name of its limit; that of a breaker has its own.
NAMES = """
SELECT l.id, coalesce(s.name, l.name), c.queue, c.name
FROM pgqueue_limit AS l
LEFT JOIN pgqueue_limit AS s ON s.id = l.parent_id AND s.breaker_failures IS NULL
LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id AND s.id IS NOT NULL
WHERE l.id = ANY (%s::bigint[])
"""
HANDLERS = "SELECT h.handler FROM pgqueue_limit_handler AS h WHERE h.limit_id = %s ORDER BY h.handler"
# The message's own limits, and those of its handler.
OF_MESSAGE = """
SELECT l.id, l.name FROM pgqueue_limit AS l
WHERE l.id = ANY (%s::bigint[]) OR l.id IN (SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = %s)
ORDER BY l.name
"""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """Hold the live messages of a channel. ``waiting_for_limit``: those that wait for a full shared limit;
    ``waiting_for_order_key``: for the message before them of their order key; ``blocked``: for other
    messages; ``scheduled``: for their time."""

    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int
    waiting_for_order_key: int
    blocked: int

    @property
    def live(self) -> int:
        """Return the number of live messages, or a CappedCount that is a lower bound."""
        waiting = (self.scheduled, self.waiting_for_limit, self.waiting_for_order_key, self.blocked)
        parts = (self.ready, self.leased, *waiting)
        total = sum(int(part) for part in parts)
        return CappedCount(total) if any(isinstance(part, CappedCount) for part in parts) else total


def live_counts(channel_ids: Sequence[int], *, using: str) -> dict[int, LiveCounts]:
    """Return the live messages by channel id."""
    found = {}
    for pk, ready, leased, messages, limited, keyed, blocked in call(
        using, LIVE, {"most": MOST_COUNTED + 1, "channels": list(channel_ids)}
    ):
        waiting = [messages - limited - keyed - blocked, limited, keyed, blocked]
        if messages > MOST_COUNTED:
            # Not all were read, so each of the four is a lower bound.
            waiting = [CappedCount(min(count, MOST_COUNTED)) for count in waiting]
        found[pk] = LiveCounts(capped(ready, MOST_COUNTED), capped(leased, MOST_COUNTED), *waiting)
    return found


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """Hold the use of a limit. ``places``: leased messages; ``cost``: the sum of their costs; ``tokens``: in the
    bucket, negative while a message has taken more than there were, None without a rate; ``waiting``: messages."""

    places: int
    cost: int
    tokens: float | None
    waiting: int


def limit_usage(ids: Sequence[int], *, using: str) -> dict[int, LimitUsage]:
    """Return the use of limits by id. Counts that reach the bound are lower bounds."""
    rows = call(using, USAGE, {"most": MOST_COUNTED + 1, "ids": list(ids)})
    return {
        pk: LimitUsage(places, cost, tokens, capped(waiting, MOST_COUNTED))
        for pk, places, cost, tokens, waiting in rows
    }


def limit_names(ids: Sequence[int], *, using: str) -> dict[int, str]:
    """Return the names of limits by id, such as "mails"; or "mails, default/acme" for the row of a channel."""
    rows = call(using, NAMES, (list(ids),))
    return {pk: name if queue is None else f"{name}, {queue}/{channel}" for pk, name, queue, channel in rows}


def handlers_of_limit(limit: int, *, using: str) -> list[str]:
    """Return the names of the handlers all of whose messages have the limit, sorted."""
    return [name for (name,) in call(using, HANDLERS, (limit,))]


def limits_of_message(ids: Sequence[int] | None, handler: str, *, using: str) -> list[tuple[int, str]]:
    """Return the ids and names of the limits of a message and of its handler."""
    return call(using, OF_MESSAGE, (list(ids or ()), handler))
