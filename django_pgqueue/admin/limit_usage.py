"""Count what shared limits have given out now, and the messages that wait for them, at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_pgqueue.admin.paginator import capped
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most leases and the most waiting messages that are counted per limit."""

# A place counts as long as its message is under the lease that took it, as in pgqueue_limit_room.
SQL = """
SELECT l.id, o.places, o.cost,
    CASE WHEN l.release_interval IS NOT NULL THEN least(l.release_burst, coalesce(
        r.tokens + extract(epoch FROM greatest(n.now - r.filled_at, '0'))
            / extract(epoch FROM l.release_interval), l.release_burst))
    END,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.waits_for = l.id LIMIT %(most)s) AS w)
FROM pgqueue_limit AS l
LEFT JOIN pgqueue_meter AS r ON r.limit_id = l.id
CROSS JOIN (SELECT clock_timestamp() AS now) AS n
CROSS JOIN LATERAL (
    SELECT count(*) AS places, coalesce(sum(t.cost), 0)::bigint AS cost
    FROM (
        SELECT coalesce(m.cost, 1) AS cost
        FROM pgqueue_place AS p
        JOIN pgqueue_message AS m ON m.id = p.message_id AND m.leased_at = p.placed_at
        WHERE p.limit_id = l.id
            AND p.placed_at >= CASE WHEN r.place_floor <= n.now THEN r.place_floor ELSE '-infinity' END
        LIMIT %(most)s
    ) AS t
) AS o
WHERE l.id = ANY (%(ids)s::bigint[])
"""
HANDLERS = "SELECT h.handler FROM pgqueue_limit_handler AS h WHERE h.limit_id = %s ORDER BY h.handler"
# The message's own limits, and those of its handler.
OF_MESSAGE = """
SELECT l.id, l.name FROM pgqueue_limit AS l
WHERE l.id = ANY (%s::bigint[]) OR l.id IN (SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = %s)
ORDER BY l.name
"""


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
    rows = call(using, SQL, {"most": MOST_COUNTED + 1, "ids": list(ids)})
    return {
        pk: LimitUsage(capped(places, MOST_COUNTED), cost, tokens, capped(waiting, MOST_COUNTED))
        for pk, places, cost, tokens, waiting in rows
    }


def handlers_of_limit(limit: int, *, using: str) -> list[str]:
    """Return the names of the handlers all of whose messages have the limit, sorted."""
    return [name for (name,) in call(using, HANDLERS, (limit,))]


def limits_of_message(ids: Sequence[int] | None, handler: str, *, using: str) -> list[tuple[int, str]]:
    """Return the ids and names of the limits of a message and of its handler."""
    return call(using, OF_MESSAGE, (list(ids or ()), handler))
