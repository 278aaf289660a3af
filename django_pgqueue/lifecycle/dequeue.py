"""Lease messages to a worker, take them at most once, or look at them; wait for more."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import connections

from django_pgqueue import codecs, handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import checked_text, checked_whole, lease_duration, optional_text
from django_pgqueue.lifecycle.binding import DELIVERY_COLUMNS, Unreadable, to_deliveries
from django_pgqueue.lifecycle.settle import settle_unreadable
from django_pgqueue.outcomes import Archive
from django_pgqueue.sql.call import alias, call
from django_pgqueue.sql.repeated import RepeatedStatement
from django_pgqueue.sql.values import duration_of

DEQUEUE = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue(%s::text, %s::integer, %s::interval, %s::text)"  # noqa: S608
DEQUEUE_LOOK_SECONDS = 0.05
DEQUEUE_AGAIN = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_dequeue($1::text, $2::integer, $3::interval, $4::text)"  # noqa: S608
DEQUEUE_ONLY = (
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
    asked = lease_arguments(queue, limit, lease, worker)
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        raise InvalidMessage(f"wait is not a number of seconds but {type(wait).__name__}")
    database = alias(using)
    deadline = time.monotonic() + wait
    while True:
        deliveries, unreadable = to_deliveries(queue, call(database, DEQUEUE, asked), worker)
        if look_again(deliveries, unreadable, database):
            continue
        left = deadline - time.monotonic()
        if deliveries or not left > 0 or connections[database].in_atomic_block:
            return deliveries
        time.sleep(min(DEQUEUE_LOOK_SECONDS, left))


def lease_arguments(queue: Any, limit: Any, lease: Any, worker: Any) -> tuple[str, int, timedelta, str | None]:
    """Return the arguments that the functions for a lease begin with. Raises InvalidMessage."""
    return (
        checked_text(queue, "queue"), checked_whole(limit, "limit", least=1, most=10_000), lease_duration(lease),
        optional_text(worker, "worker"),
    )  # fmt: skip


class RepeatedDequeue:
    """Lease messages again and again on a connection that the calling thread keeps; a worker's producer has one.

    ``lease``, ``worker``: as for :func:`dequeue`. ``using``: database alias. The way to the server is as short as it
    can be, because a message that is waited for waits for all of it.
    """

    def __init__(self, *, lease: timedelta, worker: str, using: str) -> None:
        self._statement = RepeatedStatement("pgqueue_dequeue", DEQUEUE_AGAIN)
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
                rows = call(self._using, DEQUEUE_ONLY, (*asked, only))
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


DEQUEUE_MATCHING = f"""
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
    asked = lease_arguments(queue, limit, lease, worker)
    wanted = (
        optional_text(name, "handler"),
        to_json(payload, "payload"),
        checked_whole(look, "look", least=1, most=100_000),
    )
    if name is None and payload is None:
        raise InvalidMessage(
            "dequeue_matching has neither a handler nor a payload", hint="For messages of all kinds call dequeue()."
        )
    deliveries, unreadable = to_deliveries(queue, call(using, DEQUEUE_MATCHING, (*asked, *wanted)), worker)
    if unreadable:
        settle_unreadable(unreadable, using)
    return deliveries


POP = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_pop(%s::text, %s::integer, p_archive => %s::text)"  # noqa: S608


def pop(
    queue: str = "default", limit: int = 1, *, archive: Archive | None = None, using: str | None = None
) -> list[Delivery]:
    """Take messages and archive them at once: they are delivered at most once.

    If the caller crashes afterwards, the messages are lost. ``limit``: the most messages to take, 1 to 10,000.
    ``archive``: what the archive keeps of them, as in :func:`django_pgqueue.complete`. ``using``: database alias;
    default: the queue's.

    Returns the deliveries. A message that Python cannot read is left out, and logged. Raises InvalidMessage.
    """
    given = (checked_text(queue, "queue"), checked_whole(limit, "limit", least=1, most=10_000), archive)
    return to_deliveries(queue, call(using, POP, given))[0]


PEEK = """
SELECT id, channel, handler, payload, body, headers, priority, attempts, max_attempts, NULL, NULL, state,
created_at::text, dequeue_at::text, NULL, last_leased_at::text
FROM pgqueue_peek(%s::text, %s::text, %s::integer) AS p
"""
# A codec may need the context for its keys.
CHANNEL_CONTEXT = "(SELECT c.context FROM pgqueue_channel AS c WHERE c.queue = %s::text AND c.name = p.channel)"
PEEK_WITH_CONTEXT = PEEK.replace("dequeue_at::text, NULL,", f"dequeue_at::text, {CHANNEL_CONTEXT},")


def peek(
    queue: str = "default", limit: int = 1, *, channel: str | None = None, using: str | None = None
) -> list[Delivery]:
    """Return ready messages of a channel, or of the line of a queue, without leasing them.

    ``limit``: the most messages to return. ``channel``: its name; default: all channels, in the order of the line.
    ``using``: database alias; default: the queue's. The deliveries have no token.
    """
    given = (checked_text(queue, "queue"), optional_text(channel, "channel"), checked_whole(limit, "limit", least=0))
    if codecs.current() is None:
        return to_deliveries(queue, call(using, PEEK, given))[0]
    return to_deliveries(queue, call(using, PEEK_WITH_CONTEXT, (queue, *given)))[0]


def wait(worker: str, queues: Iterable[str], duration: timedelta, *, using: str | None = None) -> None:
    """Register a worker as sleeping for ``duration``; zero registers it as awake. Dequeue once more before you sleep.

    ``worker``: its name. ``queues``: the queues that it serves. ``using``: database alias; default: the queue's.
    """
    call(using, "SELECT pgqueue_wait(%s::text, %s::text[], %s::interval)", (worker, list(queues), duration))


def is_contended(queues: Iterable[str], *, using: str | None = None) -> bool:
    """Return whether an empty dequeue of these queues skipped messages that another consumer locks at this moment.

    No notification follows when those locks are released, so dequeue again soon.
    """
    contended: bool
    [(contended,)] = call(using, "SELECT pgqueue_is_contended(%s::text[])", (list(queues),))
    return contended


def next_due(queues: Iterable[str], *, using: str | None = None) -> timedelta | None:
    """Return the time until a channel that waits for its rate may be served again; no notification follows then.

    None: no channel waits for its rate. Zero or less: dequeue now.
    """
    [(due,)] = call(using, "SELECT extract(epoch FROM pgqueue_next_due(%s::text[]))", (list(queues),))
    return duration_of(due)
