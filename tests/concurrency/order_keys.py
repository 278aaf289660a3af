"""Messages with an order key, for the tests of their order."""

from __future__ import annotations

from tests.support.sessions import Session, column
from tests.support.verbs import Lease, enqueue

KEY = "invoice-7"
DEAD = "SELECT pgqueue_dead_letter(%s, %s, array_fill('refused'::text, ARRAY[1]))"


def send(session: Session, key: str | None = KEY, count: int = 1, **arguments: object) -> list[int]:
    """Enqueue so many messages of an order key. Returns their ids."""
    return [enqueue(session, order_key=key, **arguments) for _ in range(count)]


def ids(leases: list[Lease]) -> list[int]:
    return [lease.id for lease in leases]


def waiting(session: Session) -> list[int]:
    """Return the ids of the messages that wait for their order key."""
    return column(session, "SELECT id FROM pgqueue_message WHERE waits_for = -1 ORDER BY id")
