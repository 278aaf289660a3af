"""enqueue: a message is there if and only if the caller's transaction commits. No ``on_commit`` is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async

from django_pgqueue import handlers
from django_pgqueue.backoff import Constant, Exponential, Policy, columns
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.binding import aware, duration, to_json
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue_context import in_context
from django_pgqueue.signals import message_created
from django_pgqueue.sql.call import call

ONE = """
SELECT id, outcome FROM pgqueue_enqueue(
    %s::text, %s::jsonb, %s::text, %s::text, %s::bytea, %s::jsonb, %s::integer, %s::timestamptz, %s::interval,
    %s::integer, %s::interval, %s::float8, %s::interval, %s::text, %s::boolean)
"""
MANY = """
SELECT id, outcome FROM pgqueue_enqueue_many(
    %s::text[], %s::jsonb[], %s::text[], %s::text[], %s::bytea[], %s::jsonb[], %s::integer[], %s::timestamptz[],
    %s::interval[], %s::integer[], %s::interval[], %s::float8[], %s::interval[], %s::text[], %s::boolean)
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
    backoff: Policy | None = None,
    dedupe_key: str | None = None,
    using: str | None = None,
) -> Enqueued:
    """Enqueue one message in the caller's transaction.

    ``handler``: the name that a worker looks up. ``payload``: JSON. ``body``: raw bytes beside it. ``channel``: the
    tenant's lane in
    ``queue`` (default: the handler's queue). ``priority``: higher first within the channel. ``dequeue_at`` (aware)
    or ``delay``: not
    delivered before, by the database clock. ``max_attempts``, ``backoff`` (Exponential, Constant, or a timedelta, the
    base of an exponential one): retry policy; default: the handler's, then the settings'.
    ``dedupe_key``: while a message of the channel with this key is live, its id is returned instead (outcome
    ``duplicate``).

    Raises ChannelNotFound, ChannelFull, ChannelReleased, ChannelBusy, InvalidMessage.
    """
    message = NewMessage(
        handler=handler, payload=payload, channel=channel, queue=queue, body=body, headers=headers, priority=priority,
        dequeue_at=dequeue_at, delay=delay, max_attempts=max_attempts, backoff=backoff, dedupe_key=dedupe_key,
    )  # fmt: skip
    [message] = in_context([message])
    database = alias(using)
    enqueued = Enqueued(*call(database, ONE, (*bind(message), settings.AUTO_CREATE_CHANNELS))[0])
    if message_created.receivers:
        announce([message], [enqueued], database)
    return enqueued


def enqueue_many(messages: Iterable[NewMessage], *, using: str | None = None) -> list[Enqueued]:
    """Enqueue many messages in one statement: all or none. Answers come in the order of the messages; see
    :func:`enqueue`."""
    listed = in_context(list(messages))
    bound = [bind(message) for message in listed]
    if not bound:
        return []
    # A column that nobody uses is sent as NULL: it costs nothing, and dedupe keys or delays make the function look
    # closer.
    arrays = [
        list(column) if any(value is not None for value in column) else None for column in zip(*bound, strict=True)
    ]
    arrays[1] = arrays[1] or [None] * len(bound)
    database = alias(using)
    enqueued = [Enqueued(*row) for row in call(database, MANY, (*arrays, settings.AUTO_CREATE_CHANNELS))]
    if message_created.receivers:
        announce(listed, enqueued, database)
    return enqueued


aenqueue = sync_to_async(enqueue)
"""``enqueue`` for async callers: it runs on the thread, the connection and the transaction of their sync code."""


def announce(messages: list[NewMessage], enqueued: list[Enqueued], using: str) -> None:
    """Send message_created for those that are new, in the transaction that has not committed yet."""
    for message, answer in zip(messages, enqueued, strict=True):
        if answer.created:
            message_created.send_robust(sender=NewMessage, message=message, id=answer.id, using=using)


def bind(message: NewMessage) -> tuple[Any, ...]:
    """The parameters of one message, in the order of the SQL function."""
    known = handlers.find(message.handler)
    queue = message.queue or (known.queue if known else "default")
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
        queue,
        message.body,
        to_json(message.headers, "headers"),
        message.priority,
        aware(message.dequeue_at, "dequeue_at"),
        duration(message.delay, "delay"),
        *retry_policy(message.handler, message.max_attempts, message.backoff),
        message.dedupe_key,
    )


def retry_policy(handler: str, max_attempts: int | None = None, backoff: Policy | None = None) -> tuple[Any, ...]:
    """max_attempts, backoff, backoff_factor and backoff_longest of a message: what is given, or else its handler's."""
    if known := handlers.find(handler):
        max_attempts = known.max_attempts if max_attempts is None else max_attempts
        # A function of the handler is asked by the worker, when there is an error to show it.
        backoff = known.backoff if backoff is None and not callable(known.backoff) else backoff
    if backoff is not None and not isinstance(backoff, timedelta | Constant | Exponential):
        raise InvalidMessage(
            f"backoff is not a timedelta but {type(backoff).__name__}",
            hint="Use datetime.timedelta(seconds=…), Exponential(…) or Constant(…).",
        )
    return settings.MAX_ATTEMPTS if max_attempts is None else max_attempts, *columns(backoff)
