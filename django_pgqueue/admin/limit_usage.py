"""Count what shared limits have given out now, and the messages that wait for them, at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_pgqueue.admin.base import capped
from django_pgqueue.sql.call import call

MOST_COUNTED = 1_000
"""The most waiting messages that are counted per limit."""

# The function counts at most one waiting message of each limit here: those are counted below, of breakers, too.
SQL = """
SELECT l.id, coalesce(h.places, 0), coalesce(h.cost, 0), h.tokens,
    (SELECT count(*) FROM (
        SELECT FROM pgqueue_message AS m WHERE m.waits_for = l.id LIMIT %(most)s) AS w)
FROM pgqueue_limit AS l
LEFT JOIN pgqueue_limit_health(1) AS h ON h.kind = 'shared' AND h.name = l.name
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
        pk: LimitUsage(places, cost, tokens, capped(waiting, MOST_COUNTED))
        for pk, places, cost, tokens, waiting in rows
    }


def handlers_of_limit(limit: int, *, using: str) -> list[str]:
    """Return the names of the handlers all of whose messages have the limit, sorted."""
    return [name for (name,) in call(using, HANDLERS, (limit,))]


def limits_of_message(ids: Sequence[int] | None, handler: str, *, using: str) -> list[tuple[int, str]]:
    """Return the ids and names of the limits of a message and of its handler."""
    return call(using, OF_MESSAGE, (list(ids or ()), handler))
