"""dequeue: lease messages to a worker."""

from __future__ import annotations

import time
from datetime import timedelta

from django.db import connections

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.arguments import duration, optional_text, text, whole
from django_pgqueue.lifecycle.binding import DELIVERY_COLUMNS, to_deliveries
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.dead_letter import refuse
from django_pgqueue.sql.call import call

SQL = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue(%s::text, %s::integer, %s::interval, %s::text)"  # noqa: S608
LOOK_EVERY = 0.05


def dequeue(
    queue: str = "default",
    limit: int = 1,
    *,
    lease: timedelta | None = None,
    wait: float = 0,
    worker: str | None = None,
    using: str | None = None,
) -> list[Delivery]:
    """Lease up to ``limit`` messages of a queue for ``lease`` (setting LEASE), channels in turn. The attempt is
    counted now.

    ``wait``: with nothing there, look again for up to so many seconds (long poll). Call it outside of ``atomic()``:
    the lease exists
    for others when the transaction commits. A message that Python cannot read becomes a dead letter (``unreadable``).
    Raises InvalidMessage.
    """
    text(queue, "queue"), whole(limit, "limit", least=1, most=10_000), optional_text(worker, "worker")
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        raise InvalidMessage(f"wait is not a number of seconds but {type(wait).__name__}")
    database = alias(using)
    deadline = time.monotonic() + wait
    lease = settings.LEASE if lease is None else duration(lease, "lease")
    if not lease or lease < timedelta(0):
        raise InvalidMessage(f"lease is {lease}: it is not positive")
    while True:
        deliveries, unreadable = to_deliveries(queue, call(database, SQL, (queue, limit, lease, worker)), worker)
        if unreadable:
            refuse(unreadable, database)
            if not deliveries:
                continue
        left = deadline - time.monotonic()
        if deliveries or not left > 0 or connections[database].in_atomic_block:
            return deliveries
        time.sleep(min(LOOK_EVERY, left))
