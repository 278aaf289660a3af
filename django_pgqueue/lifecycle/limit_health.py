"""limit_health: report the use of the limits that several channels share, and the messages that they hold up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.health import MOST_COUNTED_ROWS
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import with_durations

SQL = """
SELECT kind, name, places, max_concurrency, cost, max_cost, tokens, waiting, extract(epoch FROM oldest), why,
    complete
FROM pgqueue_limit_health(%s::integer)
"""


@dataclass(frozen=True, slots=True)
class LimitHealth:
    """Report one limit: what it has given out, and the messages that it holds up.

    ``kind``: shared, and the name is that of a shared limit; or queue, and the limit is that of a whole queue.
    ``places``: leased messages that count; ``cost``: what they cost, None for a queue. ``tokens``: in the bucket of the
    rate, negative while it has debts, None without a rate. A limit for each channel has None in these three, and its
    ``why`` is that of the channel that has waited longest. ``waiting``: messages that wait for it; ``oldest_age``: how
    long the oldest of them has been due. ``why``: paused, full or rate; None: it has room. ``complete``: False if there
    are more messages than were counted; the numbers are then lower bounds.
    """

    kind: Literal["shared", "queue"]
    name: str
    places: int | None
    max_concurrency: int | None
    cost: int | None
    max_cost: int | None
    tokens: float | None
    waiting: int
    oldest_age: timedelta | None
    why: Literal["paused", "full", "rate"] | None
    complete: bool

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict, with ``oldest_seconds`` in place of ``oldest_age``."""
        fields = asdict(self)
        age = fields.pop("oldest_age")
        return {**fields, "oldest_seconds": None if age is None else age.total_seconds()}


def limit_health(*, most: int = MOST_COUNTED_ROWS, using: str | None = None) -> list[LimitHealth]:
    """Return the use of all shared limits, and of the limits of whole queues.

    ``most``: the most messages that are counted for each limit. ``using``: database alias; default: the queue's.
    """
    return [LimitHealth(*with_durations(row, 8)) for row in call(alias(using), SQL, (most,))]
