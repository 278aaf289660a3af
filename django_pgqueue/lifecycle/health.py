"""health: report the state of each queue, at a cost that does not grow with the backlog."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import with_durations

MOST_COUNTED_ROWS = 10_000

SQL = """
SELECT queue, ready, leased, scheduled, waiting_for_limit, waiting_for_order_key, dead,
    extract(epoch FROM oldest), oldest_channel, workers, paused, complete, unknown_handler
FROM pgqueue_health(%s::text, %s::integer, %s::interval)
"""


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """Report one queue: its messages by state, its oldest ready message, and its workers.

    ``waiting_for_limit``: messages that wait for a full shared limit; ``waiting_for_order_key``: those that wait for
    the message before them of their order key; ``scheduled``: those that wait for their time. ``oldest_age``: how long
    ago the oldest ready message became due; ``oldest_channel``: its channel. ``workers``: the live ones that serve the
    queue. ``complete``: False if there are more messages than were counted; the numbers are then lower bounds.
    ``unknown_handler``: scheduled messages that wait for a worker that has their handler.
    """

    queue: str
    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int
    waiting_for_order_key: int
    dead: int
    oldest_age: timedelta | None
    oldest_channel: str | None
    workers: int
    paused: bool
    complete: bool
    unknown_handler: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict, with ``oldest_seconds`` in place of ``oldest_age``."""
        fields = asdict(self)
        age = fields.pop("oldest_age")
        return {**fields, "oldest_seconds": None if age is None else age.total_seconds()}


def health(queue: str | None = None, *, most: int = MOST_COUNTED_ROWS, using: str | None = None) -> list[QueueHealth]:
    """Return the health of all queues, or of one.

    ``queue``: its name; default: all. ``most``: in each queue, the most messages of one state that are counted, and the
    most channels that are examined. ``using``: database alias; default: the queue's. Workers that were silent for
    longer than the setting LEASE do not count.
    """
    rows = call(alias(using), SQL, (queue, most, settings.LEASE))
    return [QueueHealth(*with_durations(row, 7)) for row in rows]
