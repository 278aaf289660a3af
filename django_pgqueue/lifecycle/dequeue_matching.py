"""dequeue_matching: lease messages of one handler, or with certain values in their payload."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import checked_text, checked_whole, lease_duration, optional_text
from django_pgqueue.lifecycle.binding import DELIVERY_COLUMNS, to_deliveries
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.dead_letter import settle_unreadable
from django_pgqueue.sql.call import call

SQL = f"""
SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue_matching(
    %s::text, %s::integer, %s::interval, %s::text, %s::text, %s::jsonb, %s::integer)
"""  # noqa: S608


def dequeue_matching(
    queue: str = "default",
    limit: int = 1,
    *,
    handler: str | handlers.Function | None = None,
    payload: Any = None,
    look: int = 1000,
    lease: timedelta | None = None,
    worker: str | None = None,
    using: str | None = None,
) -> list[Delivery]:
    """Lease ready messages of one handler, or with certain values in their payload. The limits of channels hold.

    ``limit``: the most messages to lease, 1 to 10,000. ``handler``: a name, or the decorated function. ``payload``:
    JSON that the message's payload contains, by the rules of PostgreSQL's ``@>``. With both, both must match. ``look``:
    the most messages that are examined, 1 to 100,000; with the index of payloads only those that match count.
    ``lease``: how long the lease lasts (a timedelta); default: the setting LEASE. ``worker``: the name that is shown as
    the holder of the lease. ``using``: database alias; default: the queue's.

    Call it outside of ``atomic()``, as :func:`dequeue`. Returns the deliveries, perhaps none. Raises InvalidMessage,
    also if neither ``handler`` nor ``payload`` is given.
    """
    name = handlers.name_of(handler) if callable(handler) else handler
    checked_text(queue, "queue")
    checked_whole(limit, "limit", least=1, most=10_000)
    checked_whole(look, "look", least=1, most=100_000)
    optional_text(worker, "worker")
    optional_text(name, "handler")
    lease = lease_duration(lease)
    if name is None and payload is None:
        raise InvalidMessage(
            "dequeue_matching has neither a handler nor a payload", hint="For messages of all kinds call dequeue()."
        )
    database = alias(using)
    asked = (queue, limit, lease, worker, name, to_json(payload, "payload"), look)
    deliveries, unreadable = to_deliveries(queue, call(database, SQL, asked), worker)
    if unreadable:
        settle_unreadable(unreadable, database)
    return deliveries
