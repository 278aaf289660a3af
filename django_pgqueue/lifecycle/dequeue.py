"""dequeue: lease messages to a worker."""

from __future__ import annotations

import time
from datetime import timedelta

from django.db import connections

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.arguments import checked_text, checked_whole, lease_duration, optional_text
from django_pgqueue.lifecycle.binding import DELIVERY_COLUMNS, Unreadable, to_deliveries
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.dead_letter import settle_unreadable
from django_pgqueue.sql.call import call
from django_pgqueue.sql.repeated import RepeatedStatement

SQL = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue(%s::text, %s::integer, %s::interval, %s::text)"  # noqa: S608
DEQUEUE_LOOK_SECONDS = 0.05
REPEATED_SQL = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue($1::text, $2::integer, $3::interval, $4::text)"  # noqa: S608
ONLY_SQL = (
    f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue_matching("  # noqa: S608
    "%s::text, %s::integer, %s::interval, %s::text, p_handlers => %s::text[])"
)


def dequeue(
    queue: str = "default",
    limit: int = 1,
    *,
    lease: timedelta | None = None,
    wait: float = 0,
    worker: str | None = None,
    using: str | None = None,
) -> list[Delivery]:
    """Lease messages of a queue, in turn from its channels. Each lease counts as an attempt.

    ``limit``: the most messages to lease, 1 to 10,000. ``lease``: how long the lease lasts (a timedelta); default: the
    setting LEASE. ``wait``: seconds for which the call looks again while nothing is ready (long poll); default: it
    returns at once. ``worker``: the name that is shown as the holder of the lease. ``using``: database alias; default:
    the queue's.

    Call it outside of ``atomic()``: other sessions see the lease only when the transaction commits. A message that
    Python cannot read becomes a dead letter (``unreadable``).

    Returns the deliveries, perhaps none. Raises InvalidMessage.
    """
    checked_text(queue, "queue")
    checked_whole(limit, "limit", least=1, most=10_000)
    optional_text(worker, "worker")
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        raise InvalidMessage(f"wait is not a number of seconds but {type(wait).__name__}")
    database = alias(using)
    deadline = time.monotonic() + wait
    lease = lease_duration(lease)
    while True:
        deliveries, unreadable = to_deliveries(queue, call(database, SQL, (queue, limit, lease, worker)), worker)
        if look_again(deliveries, unreadable, database):
            continue
        left = deadline - time.monotonic()
        if deliveries or not left > 0 or connections[database].in_atomic_block:
            return deliveries
        time.sleep(min(DEQUEUE_LOOK_SECONDS, left))


class RepeatedDequeue:
    """Lease messages again and again on a connection that the calling thread keeps; a worker's producer has one.

    ``lease``, ``worker``: as for :func:`dequeue`. ``using``: database alias. The way to the server is as short as it
    can be, because a message that is waited for waits for all of it.
    """

    def __init__(self, *, lease: timedelta, worker: str, using: str) -> None:
        self._statement = RepeatedStatement("pgqueue_dequeue", REPEATED_SQL)
        self._lease = f"{lease.total_seconds():.6f} s"
        self._worker = worker
        self._using = using

    def __call__(self, queue: str, limit: int, only: list[str] | None = None) -> list[Delivery]:
        """Lease up to ``limit`` messages of ``queue``. Returns and raises what :func:`dequeue` does.

        ``only``: the handlers whose messages to lease (pgqueue_dequeue_matching); None: all handlers.
        """
        while True:
            asked = (queue, str(limit), self._lease, self._worker)
            if only is None:
                rows = self._statement.rows(self._using, asked)
            else:
                rows = call(self._using, ONLY_SQL, (*asked, only))
            deliveries, unreadable = to_deliveries(queue, rows, self._worker) if rows else ([], [])
            if not look_again(deliveries, unreadable, self._using):
                return deliveries


def look_again(deliveries: list[Delivery], unreadable: list[Unreadable], database: str) -> bool:
    """Settle the messages that Python cannot read. Returns whether to dequeue again, because there were no others.

    While a key service does not answer, it is not asked for message after message: then the answer is False.
    """
    if unreadable:
        settle_unreadable(unreadable, database)
    return bool(unreadable) and not deliveries and all(item.reason is not None for item in unreadable)
