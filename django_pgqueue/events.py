"""Listen to events of messages that PostgreSQL sends. The module needs no Django, so a dashboard may use it alone.

A queue sends events if they are switched on in its row: ``UPDATE pgqueue_queue SET events = true WHERE name =
'default'``. A notification that no session listens for is lost: use events for displays, and for programs that may miss
one.
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
    """Report something that happened to messages of one channel and handler, all in one transaction.

    ``ids``: the messages. ``event``: created, deferred, retried, rescheduled, completed, dead_lettered, cancelled,
    popped, purged or dropped. ``at``: by the clock of the database. ``attempts``: deliveries so far. ``dequeue_at``:
    when the first of them is due, while they are live. ``reason``: the reason of dead letters. More than about 300
    messages at once arrive as several events.
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
    """Return the event of a notification. Fields that a later version adds are left out. Raises ValueError for any
    other text."""
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
    """Yield the events from now on as they arrive; stop when none arrived for ``timeout`` seconds, if that is given.

    ``connection``: a psycopg connection in autocommit mode, to the server itself, not to a transaction pooler. Raises
    ValueError for one that is not in autocommit mode, and psycopg's error when the connection is lost.
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
