"""enqueue: a message is there if and only if the caller's transaction commits. No ``on_commit`` is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.binding import aware, duration, to_json
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

ONE = """
SELECT id, outcome FROM pgqueue_enqueue(
    %s::text, %s::jsonb, %s::text, %s::text, %s::bytea, %s::jsonb, %s::integer, %s::timestamptz, %s::interval,
    %s::integer,
    %s::interval, %s::text, %s::boolean)
"""
MANY = """
SELECT id, outcome FROM pgqueue_enqueue_many(
    %s::text[], %s::jsonb[], %s::text[], %s::text[], %s::bytea[], %s::jsonb[], %s::integer[], %s::timestamptz[],
    %s::interval[],
    %s::integer[], %s::interval[], %s::text[], %s::boolean)
"""


def enqueue(
    handler: str,
    payload: Any = None,
    *,
    channel: str = "default",
    queue: str | None = None,
    body: bytes | None = None,
    headers: Mapping[str, Any] | None = None,
    priority: int = 0,
    dequeue_at: datetime | None = None,
    delay: timedelta | None = None,
    max_attempts: int | None = None,
    backoff: timedelta | None = None,
    dedupe_key: str | None = None,
    using: str | None = None,
) -> Enqueued:
    """Enqueue one message in the caller's transaction.

    ``handler``: the name that a worker looks up. ``payload``: JSON. ``body``: raw bytes beside it. ``channel``: the
    tenant's lane in
    ``queue`` (default: the handler's queue). ``priority``: higher first within the channel. ``dequeue_at`` (aware)
    or ``delay``: not
    delivered before, by the database clock. ``max_attempts``, ``backoff``: retry policy; default: the handler's,
    then the settings'.
    ``dedupe_key``: while a message of the channel with this key is live, its id is returned instead (outcome
    ``duplicate``).

    Raises ChannelNotFound, ChannelFull, ChannelReleased, ChannelBusy, InvalidMessage.
    """
    message = NewMessage(
        handler=handler, payload=payload, channel=channel, queue=queue, body=body, headers=headers, priority=priority,
        dequeue_at=dequeue_at, delay=delay, max_attempts=max_attempts, backoff=backoff, dedupe_key=dedupe_key,
    )  # fmt: skip
    rows = call(alias(using), ONE, (*bind(message), settings.AUTO_CREATE_CHANNELS))
    return Enqueued(*rows[0])


def enqueue_many(messages: Iterable[NewMessage], *, using: str | None = None) -> list[Enqueued]:
    """Enqueue many messages in one statement: all or none. Answers come in the order of the messages; see
    :func:`enqueue`."""
    bound = [bind(message) for message in messages]
    if not bound:
        return []
    # A column that nobody uses is sent as NULL: it costs nothing, and dedupe keys or delays make the function look
    # closer.
    columns = [
        list(column) if any(value is not None for value in column) else None for column in zip(*bound, strict=True)
    ]
    columns[1] = columns[1] or [None] * len(bound)
    rows = call(alias(using), MANY, (*columns, settings.AUTO_CREATE_CHANNELS))
    return [Enqueued(*row) for row in rows]


aenqueue = sync_to_async(enqueue)
"""``enqueue`` for async callers: it runs on the thread, the connection and the transaction of their sync code."""


def bind(message: NewMessage) -> tuple[Any, ...]:
    """The parameters of one message, in the order of the SQL function."""
    known = handlers.find(message.handler)
    max_attempts, backoff, queue = message.max_attempts, message.backoff, message.queue
    if known is not None:
        max_attempts = known.max_attempts if max_attempts is None else max_attempts
        backoff = known.backoff if backoff is None else backoff
        queue = queue or known.queue
    if not isinstance(message.priority, int):
        raise InvalidMessage(f"priority is not an integer but {message.priority!r}")
    if message.headers is not None and not isinstance(message.headers, Mapping):
        raise InvalidMessage(f"headers are not a mapping but {type(message.headers).__name__}")
    if message.body is not None and not isinstance(message.body, bytes):
        raise InvalidMessage(f"body is not bytes but {type(message.body).__name__}", hint="Encode it, or use payload.")
    return (
        message.handler,
        to_json(message.payload, "payload"),
        message.channel,
        queue or "default",
        message.body,
        to_json(message.headers, "headers"),
        message.priority,
        aware(message.dequeue_at, "dequeue_at"),
        duration(message.delay, "delay"),
        settings.MAX_ATTEMPTS if max_attempts is None else max_attempts,
        duration(backoff, "backoff"),
        message.dedupe_key,
    )
