"""Enqueue messages in the caller's transaction: they exist if and only if it commits; no ``on_commit`` is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.utils.module_loading import import_string

from django_pgqueue import handlers
from django_pgqueue.backoff import Policy
from django_pgqueue.conf import settings
from django_pgqueue.delivery import NO_PAYLOAD, Enqueued, NewMessage, OnDead
from django_pgqueue.exceptions import (
    ChannelBusy,
    ChannelFull,
    ChannelNotFound,
    ChannelReleased,
    InvalidMessage,
    PgQueueError,
)
from django_pgqueue.handlers import AnyHandler
from django_pgqueue.lifecycle.binding import moment_of_text
from django_pgqueue.lifecycle.new_messages import Bound, Columns, awaited_ids, bind, by_name, columns_of, parameters
from django_pgqueue.lifecycle.sealing import seal_new
from django_pgqueue.limits import Limit
from django_pgqueue.signals import message_created
from django_pgqueue.sql.call import alias, refusal_error
from django_pgqueue.sql.caller import CallerStatement
from django_pgqueue.unique import Debounce, Unique

FLOW = "django_pgqueue.flow"
ANSWER = "SELECT id, outcome, created_at, dropped_ids, refusal, pg_backend_pid() FROM"
# The columns of a Bound: those before the dedupe key, and those after it, with the settings.
FIRST = (
    "%s::text, %s::jsonb, %s::text, %s::text, %s::bytea, %s::jsonb, %s::integer, %s::timestamptz, %s::interval, "
    "%s::integer, %s::interval, %s::float8, %s::interval"
)
LAST = (
    "p_limits => %s::text[], p_cost => %s::integer, p_order_key => %s::text, p_create_channel => %s::boolean, "
    "p_wait => %s::interval"
)
ONE = CallerStatement("pgqueue_enqueue", f"{ANSWER} pgqueue_enqueue({FIRST}, %s::text, {LAST})")
UNIQUE = CallerStatement("pgqueue_enqueue_unique", f"{ANSWER} pgqueue_enqueue_unique(%s::jsonb, {FIRST}, {LAST})")
AFTER = CallerStatement(
    "pgqueue_enqueue_after", f"{ANSWER} pgqueue_enqueue_after(%s::bigint[], %s::text, {FIRST}, %s::text, {LAST})"
)
# The moment as text: see binding.py. chr(31): SEPARATOR. See sql/values.py for the arrays with NULLs. The usual answer,
# that all messages were created at one time, is one row with all ids: a thousand rows would take the client and the
# server longer than their conversion does.
MANY = CallerStatement(
    "pgqueue_enqueue_many",
    """
WITH answer AS MATERIALIZED (
    SELECT id, outcome, created_at, dropped_ids, refusal FROM pgqueue_enqueue_many(
        p_handlers => %s::text[],
        p_payloads => string_to_array(%s::text, chr(31), '')::jsonb[],
        p_channels => %s::text[],
        p_queues => %s::text[],
        p_bodies => string_to_array(%s::text, ',', '')::bytea[],
        p_headers => string_to_array(%s::text, chr(31), '')::jsonb[],
        p_priorities => %s::integer[],
        p_dequeue_ats => string_to_array(%s::text, ',', '')::timestamptz[],
        p_delays => string_to_array(%s::text, ',', '')::interval[],
        p_max_attempts => %s::integer[],
        p_backoffs => string_to_array(%s::text, ',', '')::interval[],
        p_backoff_factors => string_to_array(%s::text, ',', '')::float8[],
        p_backoff_longests => string_to_array(%s::text, ',', '')::interval[],
        p_dedupe_keys => (SELECT array_agg(u) FROM jsonb_array_elements_text(%s::jsonb) AS u),
        p_limits => string_to_array(%s::text, chr(31), '')::jsonb[],
        p_costs => string_to_array(%s::text, ',', '')::integer[],
        p_order_keys => (SELECT array_agg(u) FROM jsonb_array_elements_text(%s::jsonb) AS u),
        p_create_channel => %s::boolean,
        p_partial => %s::boolean,
        p_wait => %s::interval)
), alike AS (
    SELECT array_agg(id)::text AS ids, min(created_at) AS created_at FROM answer
    HAVING bool_and(outcome = 'created' AND dropped_ids IS NULL) AND min(created_at) = max(created_at)
)
SELECT ids, NULL AS id, NULL AS outcome, created_at::text, NULL AS dropped_ids, NULL AS refusal, pg_backend_pid()
FROM alike
UNION ALL
SELECT NULL, id, outcome, created_at::text, dropped_ids, refusal, pg_backend_pid() FROM answer
WHERE NOT EXISTS (SELECT FROM alike)
""",
)


def in_context(messages: list[NewMessage]) -> list[NewMessage]:
    """Return the messages with the context in their headers; a message's own headers win."""
    context = enqueue_context()
    if not context:
        return messages
    return [
        replace(message, headers={**context, **(message.headers or {})})
        if message.headers is None or isinstance(message.headers, Mapping)
        else message
        for message in messages
    ]


def enqueue_context() -> dict[str, Any] | None:
    """Return the merged answers of the callables of ENQUEUE_CONTEXT, where later ones win. None if there are none.

    Raises InvalidMessage for an answer that is neither a mapping nor None, and any exception that a callable raises.
    """
    if not settings.ENQUEUE_CONTEXT:
        return None
    context: dict[str, Any] = {}
    for provider in settings.ENQUEUE_CONTEXT:
        found = (import_string(provider) if isinstance(provider, str) else provider)()
        if found is not None and not isinstance(found, Mapping):
            raise InvalidMessage(
                f"{provider} of ENQUEUE_CONTEXT returned {type(found).__name__}", hint="Return a dict, or None."
            )
        context |= found or {}
    return context


OnRefused = Literal["raise", "return"]
REFUSALS = (ChannelNotFound, ChannelFull, ChannelReleased, ChannelBusy, InvalidMessage)


def enqueue(
    handler: str | AnyHandler,
    payload: Any = NO_PAYLOAD,
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
    unique: Unique | Debounce | None = None,
    after: Iterable[Enqueued | int] | None = None,
    on_dead: OnDead | None = None,
    on_refused: OnRefused = "raise",
    using: str | None = None,
) -> Enqueued:
    """Enqueue one message in the caller's transaction. Returns its id and outcome.

    ``handler``: the name that a worker looks up, or the decorated function. ``payload``: JSON; default: ``{}``.
    ``body``: raw bytes beside it. ``headers``: JSON object for middleware, such as a trace. ``channel``: the tenant's
    part of ``queue`` (default: the handler's queue). ``priority``: a message with a higher one is delivered first
    within the channel.

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

    ``unique``: a :class:`Unique` or :class:`Debounce`, for more than ``dedupe_key`` does: while another message has its
    key, that one is kept (``duplicate``), or gets the new payload (``replaced``).

    ``after``: messages, by their ids or by the answers of their enqueue: the message waits until all have ended; needs
    the app ``django_pgqueue.flow``. ``on_dead``: what becomes of it when one of them ends without being completed:
    "cancel" (default) cancels it, "run" runs it all the same, "wait" waits for a redrive of a dead letter.

    ``on_refused``: "raise" raises a refusal; "return" returns its outcome and its reason. ``using``: database alias;
    default: the queue's.

    Raises ChannelNotFound, ChannelFull, ChannelReleased, ChannelBusy (after at most the setting ENQUEUE_WAIT),
    InvalidMessage. Nothing is written then, and the caller's transaction stays usable.
    """
    returned(on_refused)
    name = handlers.name_of(handler)
    message = NewMessage(
        handler=name, payload={} if payload is NO_PAYLOAD else payload, channel=channel, queue=queue, body=body,
        headers=headers, priority=priority, dequeue_at=dequeue_at, delay=delay, max_attempts=max_attempts,
        backoff=backoff, dedupe_key=dedupe_key, limits=limits, cost=cost, order_key=order_key,
        unique=unique, after=after, on_dead=on_dead,
    )  # fmt: skip
    [message] = in_context([message])
    database = alias(using)
    enqueued = enqueue_one(message, on_refused, database)
    if message_created.receivers:
        announce([message], [enqueued], database)
    return enqueued


def require_flow(what: str) -> None:
    """Raise ImproperlyConfigured if the app of batches is not installed. ``what``: needs it."""
    if not apps.is_installed(FLOW):
        raise ImproperlyConfigured(f'{what} needs an app: add "{FLOW}" to INSTALLED_APPS and run manage.py migrate.')


def enqueue_one(message: NewMessage, on_refused: OnRefused, database: str, prefix: str = "") -> Enqueued:
    """Enqueue a message, whose handler is a name, in a statement of its own. ``prefix``: goes before a refusal."""
    try:
        [bound] = seal_new([bind(message)], database)
        asked = None if message.unique is None else message.unique.request()
        awaited = None if message.after is None else awaited_ids(message)
    except InvalidMessage as error:
        error = InvalidMessage(f"{prefix}{error.message}", hint=error.hint)
        if returned(on_refused):
            return not_enqueued(error)
        raise error from None
    last = (settings.AUTO_CREATE_CHANNELS, settings.ENQUEUE_WAIT)
    if awaited is not None:
        require_flow("after")
        [(id, outcome, created_at, dropped_ids, refusal)] = AFTER.rows(  # noqa: A001
            database, (awaited, message.on_dead or "cancel", *bound, *last)
        )
    elif asked is None:
        [(id, outcome, created_at, dropped_ids, refusal)] = ONE.rows(database, (*bound, *last))  # noqa: A001  (as everywhere)
    else:
        place = Bound._fields.index("dedupe_key")
        [(id, outcome, created_at, dropped_ids, refusal)] = UNIQUE.rows(  # noqa: A001
            database, (asked, *bound[:place], *bound[place + 1 :], *last)
        )
    if refusal is not None:
        return refused(refusal, prefix, on_refused)
    return Enqueued(id, outcome, "", created_at, tuple(dropped_ids or ()))


def enqueue_many(
    messages: Iterable[NewMessage], *, on_refused: OnRefused = "raise", using: str | None = None
) -> list[Enqueued]:
    """Enqueue many messages in one statement. Returns the answers in the order of the messages; see :func:`enqueue`.

    ``messages``: a list, or another iterable, of NewMessage. The handler of each is a name or a decorated function.
    ``on_refused``: "raise" enqueues all or none, and the exception names the message that is refused and the reason;
    "return" enqueues those that are not refused, and returns the outcome and the reason of each of the others.
    ``using``: database alias; default: the queue's.

    Raises what :func:`enqueue` raises, and InvalidMessage for an item that is no NewMessage.
    """
    if isinstance(messages, NewMessage):
        raise InvalidMessage("messages is one NewMessage, not several", hint="Give a list of them, or use enqueue().")
    given = list(messages)
    if wrong := next((each for each in given if not isinstance(each, NewMessage)), None):
        raise InvalidMessage(
            f"a message is not a NewMessage but {type(wrong).__name__}", hint="Use NewMessage(handler=…)."
        )
    listed = in_context(given)
    database = alias(using)
    if any(message.unique is not None or message.after is not None for message in listed):
        return enqueue_each(listed, on_refused, database)
    columns = columns_of(listed) if listed else None
    if columns is not None:
        enqueued = answers_of(call_many(columns, returned(on_refused), database), range(len(listed)), on_refused)
    else:
        listed, bound, answers = bind_each(listed, on_refused)
        columns = dict(zip(Bound._fields, zip(*seal_new(list(bound.values()), database), strict=True), strict=False))
        if columns:
            rows = call_many(columns, returned(on_refused), database)
            answers.update(zip(bound, answers_of(rows, list(bound), on_refused, len(listed)), strict=True))
        enqueued = [answers[place] for place in range(len(listed))]
    if message_created.receivers:
        announce(listed, enqueued, database)
    return enqueued


def enqueue_each(messages: list[NewMessage], on_refused: OnRefused, database: str) -> list[Enqueued]:
    """Enqueue messages of which some are unique or wait for others, each in a statement of its own, in the order of
    their keys, so that two callers do not wait for each other. Raises the first refusal, and then enqueues none."""
    messages = [by_name(message) for message in messages]
    answers: dict[int, Enqueued] = {}
    with transaction.atomic(using=database):
        for place in sorted(range(len(messages)), key=lambda place: key_of(messages[place])):
            prefix = f"message {place + 1} of {len(messages)}: "
            answers[place] = enqueue_one(messages[place], on_refused, database, prefix)
    enqueued = [answers[place] for place in range(len(messages))]
    if message_created.receivers:
        announce(messages, enqueued, database)
    return enqueued


def key_of(message: NewMessage) -> tuple[str, str, str]:
    """Return what a message is ordered by that may wait for other transactions."""
    key = message.unique.key if message.unique is not None else message.dedupe_key
    return (str(message.queue), str(message.channel), str(key))


def answers_of(
    rows: list[tuple[Any, ...]], places: Sequence[int], on_refused: OnRefused, count: int | None = None
) -> list[Enqueued]:
    """Return the rows of MANY as answers. Raises the first refusal, unless refusals are returned.

    ``places``: where the messages stand in the call. ``count``: how many it has, if it has more.
    """
    if rows[0][0] is not None:
        created_at = moment_of_text(rows[0][3])
        return [Enqueued(id, "created", "", created_at) for id in map(int, rows[0][0][1:-1].split(","))]  # noqa: A001
    count = len(places) if count is None else count
    return [
        Enqueued(id, outcome, "", moment_of_text(created_at), tuple(dropped_ids or ()))
        if refusal is None
        else refused(refusal, f"message {place + 1} of {count}: ", on_refused)
        for place, (_, id, outcome, created_at, dropped_ids, refusal) in zip(places, rows, strict=True)  # noqa: A001
    ]


def bind_each(
    messages: list[NewMessage], on_refused: OnRefused
) -> tuple[list[NewMessage], dict[int, Bound], dict[int, Enqueued]]:
    """Return the messages with the names of their handlers, and by its place the parameters of each message, or its
    refusal."""
    listed, bound, refusals = list(messages), dict[int, Bound](), dict[int, Enqueued]()
    for place, message in enumerate(messages):
        try:
            listed[place] = named = by_name(message)
            bound[place] = bind(named)
        except InvalidMessage as error:
            located = InvalidMessage(f"message {place + 1} of {len(listed)}: {error.message}", hint=error.hint)
            if not returned(on_refused):
                raise located from error
            refusals[place] = not_enqueued(located)
    return listed, bound, refusals


def call_many(columns: Columns, partial: bool, database: str) -> list[tuple[Any, ...]]:
    """Call pgqueue_enqueue_many, and return its rows. ``partial``: enqueue what is not refused."""
    return MANY.rows(database, (*parameters(columns), settings.AUTO_CREATE_CHANNELS, partial, settings.ENQUEUE_WAIT))


def refused(refusal: str, prefix: str, on_refused: OnRefused) -> Enqueued:
    """Return the answer that stands for a refusal, or raise it. ``prefix``: goes before its message."""
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
