"""health: how each queue is, at a cost that does not grow with the backlog."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

MOST = 10_000

SQL = """
SELECT queue, ready, leased, scheduled, dead, oldest, oldest_channel, workers, paused, complete, unknown_handler
FROM pgqueue_health(%s::text, %s::integer, %s::interval)
"""


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """Messages of a queue by state; age of the oldest ready one since it became due, and its channel; workers that
    serve it. Not ``complete``: there are more than were looked at, and the numbers say *at least*. ``unknown_handler``:
    scheduled messages that wait for a worker that knows their handler."""

    queue: str
    ready: int
    leased: int
    scheduled: int
    dead: int
    oldest_age: timedelta | None
    oldest_channel: str | None
    workers: int
    paused: bool
    complete: bool
    unknown_handler: int = 0

    def as_json(self) -> dict[str, Any]:
        """The fields, with ``oldest_seconds`` in place of ``oldest_age``."""
        fields = asdict(self)
        age = fields.pop("oldest_age")
        return {**fields, "oldest_seconds": None if age is None else age.total_seconds()}


def health(queue: str | None = None, *, most: int = MOST, using: str | None = None) -> list[QueueHealth]:
    """Health of all queues, or of one. ``most``: so many messages of a state are counted in a queue, and so many
    channels looked at. Workers that were silent for longer than LEASE do not count."""
    return [QueueHealth(*row) for row in call(alias(using), SQL, (queue, most, settings.LEASE))]
