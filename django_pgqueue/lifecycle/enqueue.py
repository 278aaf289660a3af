"""enqueue: insert messages in the caller's transaction. A message exists if and only if the transaction commits; no
``on_commit`` is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from asgiref.sync import sync_to_async

from django_pgqueue import codecs, handlers
from django_pgqueue.backoff import Constant, Exponential, Policy, policy_columns
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.exceptions import (
    ChannelBusy,
    ChannelFull,
    ChannelNotFound,
    ChannelReleased,
    InvalidMessage,
    PgQueueError,
)
from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.jsonb import limit_size, to_json
from django_pgqueue.lifecycle.arguments import aware, checked_duration, checked_text, checked_whole, optional_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue_context import in_context
from django_pgqueue.lifecycle.sealing import seal_new
from django_pgqueue.limits import Limit, limit_names
from django_pgqueue.signals import message_created
from django_pgqueue.sql.call import call, refusal_error

LIMITS = -3
"""The place of the limits among the parameters of a message."""
OnRefused = Literal["raise", "return"]
REFUSALS = (ChannelNotFound, ChannelFull, ChannelReleased, ChannelBusy, InvalidMessage)
ONE = """
SELECT id, outcome, created_at, dropped_ids, refusal FROM pgqueue_enqueue(
    %s::text, %s::jsonb, %s::text, %s::text, %s::bytea, %s::jsonb, %s::integer, %s::timestamptz, %s::interval,
    %s::integer, %s::interval, %s::float8, %s::interval, %s::text, p_limits => %s::text[], p_cost => %s::integer,
    p_order_key => %s::text, p_create_channel => %s::boolean, p_wait => %s::interval)
"""
MANY = """
SELECT id, outcome, created_at, dropped_ids, refusal FROM pgqueue_enqueue_many(
    %s::text[], %s::jsonb[], %s::text[], %s::text[], %s::bytea[], %s::jsonb[], %s::integer[], %s::timestamptz[],
    %s::interval[], %s::integer[], %s::interval[], %s::float8[], %s::interval[], %s::text[],
    p_limits => %s::jsonb[], p_costs => %s::integer[], p_order_keys => %s::text[], p_create_channel => %s::boolean,
    p_partial => %s::boolean, p_wait => %s::interval)
"""


def enqueue(
    handler: str | AnyHandler,
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
    limits: Iterable[str | Limit] | None = None,
    cost: int | None = None,
    order_key: str | None = None,
    on_refused: OnRefused = "raise",
    using: str | None = None,
) -> Enqueued:
    """Enqueue one message in the caller's transaction. Returns its id and outcome.

    ``handler``: the name that a worker looks up, or the decorated function. ``payload``: JSON. ``body``: raw bytes
    beside it. ``headers``: JSON object for middleware, such as a trace. ``channel``: the tenant's part of ``queue``
    (default: the handler's queue). ``priority``: a message with a higher one is delivered first within the channel.

    ``dequeue_at``: an aware datetime, or ``delay``: a timedelta; the message is not delivered before, by the clock of
    the database. ``max_attempts``, ``backoff`` (Exponential, Constant, or a timedelta, the base of an exponential one):
    the retry policy; default: the handler's, or else that of the settings. ``dedupe_key``: while a message of the
    channel with this key is live, its id is returned instead (outcome ``duplicate``).

    ``limits``: names of shared limits, or :class:`Limit` objects, beside those of the handler; the message waits, and
    blocks no others, while one of them is full. ``cost``: the tokens that it takes of rates, and its part of
    ``max_cost``; default 1.

    ``order_key``: 1 to 200 characters. Messages of the channel with the same key are delivered one after the other, in
    the order of their ids: the next one when the one before it is settled, also through retries and deferrals. Other
    messages of the channel go on.

    ``on_refused``: "raise" raises a refusal; "return" returns its outcome and its reason. ``using``: database alias;
    default: the queue's.

    Raises ChannelNotFound, ChannelFull, ChannelReleased, ChannelBusy (after at most the setting ENQUEUE_WAIT),
    InvalidMessage. Nothing is written then, and the caller's transaction stays usable.
    """
    returned(on_refused)
    name = handlers.name_of(handler)
    message = NewMessage(
        handler=name, payload=payload, channel=channel, queue=queue, body=body, headers=headers, priority=priority,
        dequeue_at=dequeue_at, delay=delay, max_attempts=max_attempts, backoff=backoff, dedupe_key=dedupe_key,
        limits=limits, cost=cost, order_key=order_key,
    )  # fmt: skip
    [message] = in_context([message])
    database = alias(using)
    try:
        [bound] = seal_new([bind(message)], database)
    except InvalidMessage as error:
        if returned(on_refused):
            return not_enqueued(error)
        raise
    [row] = call(database, ONE, (*bound, settings.AUTO_CREATE_CHANNELS, settings.ENQUEUE_WAIT))
    enqueued = answer(row, "", on_refused)
    if message_created.receivers:
        announce([message], [enqueued], database)
    return enqueued


def enqueue_many(
    messages: Iterable[NewMessage], *, on_refused: OnRefused = "raise", using: str | None = None
) -> list[Enqueued]:
    """Enqueue many messages in one statement. Returns the answers in the order of the messages; see :func:`enqueue`.

    ``messages``: a list, or another iterable, of NewMessage. The handler of each is a name or a decorated function.
    ``on_refused``: "raise" enqueues all or none, and the exception names the message that is refused and the reason;
    "return" enqueues those that are not refused, and returns the outcome and the reason of each of the others.
    ``using``: database alias; default: the queue's.

    Raises what :func:`enqueue` raises.
    """
    if isinstance(messages, NewMessage):
        raise InvalidMessage("messages is one NewMessage, not several", hint="Give a list of them, or use enqueue().")
    given = list(messages)
    if wrong := next((each for each in given if not isinstance(each, NewMessage)), None):
        raise InvalidMessage(
            f"a message is not a NewMessage but {type(wrong).__name__}", hint="Use NewMessage(handler=…)."
        )
    listed = list(in_context(given))
    database = alias(using)
    answers: dict[int, Enqueued] = {}
    bound: dict[int, tuple[Any, ...]] = {}
    for place, message in enumerate(listed):
        try:
            listed[place] = message = by_name(message)
            bound[place] = bind(message)
        except InvalidMessage as error:
            located = InvalidMessage(f"message {place + 1} of {len(listed)}: {error.message}", hint=error.hint)
            if not returned(on_refused):
                raise located from error
            answers[place] = not_enqueued(located)
    if bound:
        params = (
            *arrays(seal_new(list(bound.values()), database)),
            settings.AUTO_CREATE_CHANNELS,
            returned(on_refused),
            settings.ENQUEUE_WAIT,
        )
        for place, row in zip(bound, call(database, MANY, params), strict=True):
            answers[place] = answer(row, f"message {place + 1} of {len(listed)}: ", on_refused)
    enqueued = [answers[place] for place in range(len(listed))]
    if message_created.receivers:
        announce(listed, enqueued, database)
    return enqueued


def arrays(bound: list[tuple[Any, ...]]) -> list[list[Any] | None]:
    """Return one array a column. A column without values is sent as NULL, because dedupe keys and delays cost the
    function extra work."""
    columns = [
        list(column) if any(value is not None for value in column) else None for column in zip(*bound, strict=True)
    ]
    columns[1] = columns[1] or [None] * len(bound)
    if limits := columns[LIMITS]:
        # Lists of several lengths are no array of PostgreSQL.
        columns[LIMITS] = [to_json(names, "limits") if names else None for names in limits]
    return columns


def answer(row: tuple[Any, ...], prefix: str, on_refused: OnRefused) -> Enqueued:
    """Return the answer for one message of many, or raise its refusal."""
    id, outcome, created_at, dropped_ids, refusal = row  # noqa: A001  (as everywhere)
    if refusal is None:
        return Enqueued(id, outcome, created_at=created_at, dropped_ids=tuple(dropped_ids or ()))
    error = refusal_error(refusal, prefix)
    if not returned(on_refused):
        raise error
    return not_enqueued(error)


def not_enqueued(error: PgQueueError) -> Enqueued:
    """Return the answer that stands for a refusal."""
    return Enqueued(None, cast(Any, error.outcome), str(error))


def returned(on_refused: str) -> bool:
    """Return whether refusals are returned. Raises ValueError for what is neither "raise" nor "return"."""
    if on_refused not in ("raise", "return"):
        raise ValueError(f'on_refused takes "raise" or "return", not {on_refused!r}')
    return on_refused == "return"


aenqueue = sync_to_async(enqueue)
"""``enqueue`` for async callers: it runs on the thread, the connection and the transaction of their sync code."""


def announce(messages: list[NewMessage], enqueued: list[Enqueued], using: str) -> None:
    """Send message_created for each new message, in the transaction that has not committed yet."""
    for message, answer in zip(messages, enqueued, strict=True):
        if answer.created:
            message_created.send_robust(sender=NewMessage, message=message, id=answer.id, using=using)


def by_name(message: NewMessage) -> NewMessage:
    """Return the message with the name of its handler in place of the function. Raises InvalidMessage."""
    return message if isinstance(message.handler, str) else replace(message, handler=handlers.name_of(message.handler))


def bind(message: NewMessage) -> tuple[Any, ...]:
    """Return the parameters of one message, in the order of the SQL function. Raises InvalidMessage."""
    name = checked_text(message.handler, "handler")
    known = handlers.find(name)
    if message.queue == "":
        raise InvalidMessage("queue is empty", hint="Name a queue, or leave it out for the handler's.")
    queue = optional_text(message.queue, "queue") or (known.queue if known else "default")
    if message.headers is not None and not isinstance(message.headers, Mapping):
        raise InvalidMessage(f"headers are not a mapping but {type(message.headers).__name__}")
    if message.body is not None and not isinstance(message.body, bytes):
        raise InvalidMessage(f"body is not bytes but {type(message.body).__name__}", hint="Encode it, or use payload.")
    body, headers = message.body or b"", to_json(message.headers, "headers")
    limit_size(len(body), "body")
    payload = to_json(message.payload, "payload")
    limit_size(len(payload or "") + len(body) + len(headers or ""), "message (payload, body and headers)")
    codecs.refuse_stored_form(payload, "payload")
    codecs.refuse_stored_body(message.body)
    return (
        name,
        payload,
        checked_text(message.channel, "channel"),
        queue,
        message.body,
        headers,
        checked_whole(message.priority, "priority", least=-32_767, most=32_767),
        aware(message.dequeue_at, "dequeue_at"),
        checked_duration(message.delay, "delay"),
        *retry_policy(name, message.max_attempts, message.backoff),
        optional_text(message.dedupe_key, "dedupe_key"),
        limits_of(message, known),
        None if message.cost is None else checked_whole(message.cost, "cost", least=1),
        optional_text(message.order_key, "order_key"),
    )


def limits_of(message: NewMessage, known: handlers.Handler | None) -> list[str] | None:
    """Return the names of the message's own limits and of those of its handler, each once; None if there are none."""
    if message.limits is None and (known is None or not known.limits):
        return None
    names = (*limit_names(message.limits), *(known.limits if known else ()))
    return [checked_text(name, "limits") for name in dict.fromkeys(names)] or None


def retry_policy(handler: str, max_attempts: int | None = None, backoff: Policy | None = None) -> tuple[Any, ...]:
    """Return max_attempts, backoff, backoff_factor and backoff_longest of a message: the given ones, or else its
    handler's."""
    if known := handlers.find(handler):
        max_attempts = known.max_attempts if max_attempts is None else max_attempts
        # A back-off function takes the exception, so the worker calls it after the failure.
        backoff = known.backoff if backoff is None and not callable(known.backoff) else backoff
    if backoff is not None and not isinstance(backoff, timedelta | Constant | Exponential):
        raise InvalidMessage(
            f"backoff is not a timedelta but {type(backoff).__name__}",
            hint="Use datetime.timedelta(seconds=…), Exponential(…) or Constant(…).",
        )
    most = settings.MAX_ATTEMPTS if max_attempts is None else max_attempts
    return checked_whole(most, "max_attempts", least=1), *policy_columns(backoff)
