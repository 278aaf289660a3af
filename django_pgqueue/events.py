"""What happens to messages, as PostgreSQL tells whoever listens. Needs no Django: a dashboard may use it alone.

A queue tells its events when its row says so: ``UPDATE pgqueue_queue SET events = true WHERE name = 'default'``. A
notification is lost when nobody listens. It is for people to watch, and for what else may miss one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

CHANNEL = "pgqueue_events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the messages ``ids`` of one channel and handler, all in one transaction.

    ``event``: created, deferred, retried, rescheduled, completed, dead_lettered, cancelled, popped, purged or dropped.
    ``at``: by the database clock. ``attempts``: deliveries so far. ``dequeue_at``: when the first of them is due, while
    they live. ``reason``: of dead letters. More than about 300 messages at once come as several events.
    """

    event: str
    at: datetime
    queue: str
    channel: str
    handler: str
    attempts: int
    ids: tuple[int, ...]
    dequeue_at: datetime | None = None
    reason: str | None = None


def decode(payload: str) -> Event:
    """The event of a notification. What a later version adds to it is left out. Raises ValueError for anything else."""
    try:
        found = json.loads(payload)
        return Event(
            event=found["event"],
            at=datetime.fromisoformat(found["at"]),
            queue=found["queue"],
            channel=found["channel"],
            handler=found["handler"],
            attempts=found["attempts"],
            ids=tuple(found["ids"]),
            dequeue_at=datetime.fromisoformat(found["dequeue_at"]) if "dequeue_at" in found else None,
            reason=found.get("reason"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this is no event of the queue: {payload[:200]!r}") from error


def listen(connection: psycopg.Connection[Any], *, timeout: float | None = None) -> Iterator[Event]:
    """The events from now on, as they come; ends when none came for ``timeout`` seconds, if that is given.

    ``connection``: a psycopg connection in autocommit mode, to the server itself, not to a transaction pooler. Raises
    ValueError for one that is not in autocommit mode, and what psycopg raises when the connection is lost.
    """
    if not connection.autocommit:
        raise ValueError("listen needs a connection in autocommit mode: notifications come between transactions")
    connection.execute(f"LISTEN {CHANNEL}")
    return _events(connection, timeout)


def _events(connection: psycopg.Connection[Any], timeout: float | None) -> Iterator[Event]:
    while True:
        quiet = True
        for notification in connection.notifies(timeout=timeout, stop_after=1):
            quiet = False
            if notification.channel == CHANNEL:
                yield decode(notification.payload)
        if quiet:
            return
