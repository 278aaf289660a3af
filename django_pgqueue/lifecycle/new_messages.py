"""Check new messages, and convert them to the parameters of the SQL functions: each by itself, or column by column.

A bulk enqueue checks each distinct value of a column once, as most of its messages have the same handler and channel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

from django_pgqueue import codecs, handlers
from django_pgqueue.backoff import Constant, Exponential, Policy, policy_columns
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import limit_size, to_json, to_json_texts
from django_pgqueue.lifecycle.arguments import aware, checked_duration, checked_text, checked_whole, optional_text
from django_pgqueue.limits import limit_names
from django_pgqueue.sql.values import SEPARATOR, duration_text, json_texts, plain_texts
from django_pgqueue.unique import Debounce, Unique


class Bound(NamedTuple):
    """Hold the parameters of one message, by the names that they have in the ENQUEUE_BIND function."""

    handler: str
    payload: str | None
    channel: str
    queue: str
    body: bytes | None
    headers: str | None
    priority: int
    dequeue_at: datetime | None
    delay: timedelta | None
    max_attempts: int
    backoff: timedelta | None
    backoff_factor: float | None
    backoff_longest: timedelta | None
    dedupe_key: str | None
    limits: list[str] | None
    cost: int | None
    order_key: str | None


def by_name(message: NewMessage) -> NewMessage:
    """Return the message with the name of its handler in place of the function. Raises InvalidMessage."""
    return message if isinstance(message.handler, str) else replace(message, handler=handlers.name_of(message.handler))


def bind(message: NewMessage) -> Bound:
    """Return the parameters of one message. Raises InvalidMessage."""
    name = checked_text(message.handler, "handler")
    known = handlers.find(name)
    if message.queue == "":
        raise InvalidMessage("queue is empty", hint="Name a queue, or leave it out for the handler's.")
    if message.headers is not None and not isinstance(message.headers, Mapping):
        raise InvalidMessage(f"headers are not a mapping but {type(message.headers).__name__}")
    if message.body is not None and not isinstance(message.body, bytes):
        raise InvalidMessage(f"body is not bytes but {type(message.body).__name__}", hint="Encode it, or use payload.")
    if message.unique is not None and not isinstance(message.unique, Unique | Debounce):
        raise InvalidMessage(f"unique is not a Unique or Debounce but {type(message.unique).__name__}")
    if message.unique is not None and message.dedupe_key is not None:
        raise InvalidMessage("both unique and dedupe_key are given", hint="Give one.")
    if message.unique is not None and message.after is not None:
        raise InvalidMessage("both unique and after are given", hint="Give dedupe_key in place of unique.")
    if message.on_dead is not None and message.after is None:
        raise InvalidMessage("on_dead is given without after", hint="Give the messages that it waits for.")
    most, body = settings.MAX_PAYLOAD, message.body or b""
    headers = to_json(message.headers, "headers", most)
    payload = to_json(message.payload, "payload", most, rows=known is not None and known.takes_rows)
    limit_size(len(body), "body", most)
    limit_size(len(payload or "") + len(body) + len(headers or ""), "message (payload, body and headers)", most)
    codecs.refuse_stored_form(payload, "payload")
    codecs.refuse_stored_body(message.body)
    return Bound(
        name,
        payload,
        checked_text(message.channel, "channel"),
        optional_text(message.queue, "queue") or (known.queue if known else "default"),
        message.body,
        headers,
        checked_priority(message.priority),
        aware(message.dequeue_at, "dequeue_at"),
        checked_duration(message.delay, "delay"),
        *retry_policy(name, message.max_attempts, message.backoff),
        optional_text(message.dedupe_key, "dedupe_key"),
        limits_of(message, known),
        None if message.cost is None else checked_whole(message.cost, "cost", least=1),
        optional_text(message.order_key, "order_key"),
    )


def awaited_ids(message: NewMessage) -> list[int]:
    """Return the ids of the messages that a new one waits for, each once. Raises InvalidMessage."""
    if message.on_dead not in (None, "cancel", "run", "wait"):
        raise InvalidMessage(f"on_dead is {message.on_dead!r}", hint='It takes "cancel", "run" or "wait".')
    if message.after is None or isinstance(message.after, Enqueued | int | str):
        raise InvalidMessage("after is no list of messages", hint="Give a list of ids, or of answers of enqueue().")
    found = [each.id if isinstance(each, Enqueued) else each for each in message.after]
    if None in found:
        raise InvalidMessage("after has a message that was not enqueued", hint="Look at the outcome of each answer.")
    return list(dict.fromkeys(checked_whole(id, "an id of after", least=1) for id in found))  # noqa: A001


def checked_priority(value: Any) -> int:
    """Return the priority. Raises InvalidMessage unless it is an int that the column can hold."""
    return checked_whole(value, "priority", least=-32_767, most=32_767)


def limits_of(message: NewMessage, known: handlers.Handler | None) -> list[str] | None:
    """Return the names of the message's own limits and of those of its handler, each once; None if there are none."""
    if message.limits is None and (known is None or not known.limits):
        return None
    names = (*limit_names(message.limits), *(known.limits if known else ()))
    return [checked_text(name, "limits") for name in dict.fromkeys(names)] or None


def retry_policy(
    handler: str, max_attempts: int | None = None, backoff: Policy | None = None
) -> tuple[int, timedelta | None, float | None, timedelta | None]:
    """Return max_attempts, backoff, backoff_factor and backoff_longest of a message: the given ones, or else its
    handler's. Raises InvalidMessage."""
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


Columns = dict[str, Sequence[Any]]
"""The values of all messages by the names of Bound; a name that is missing has no values."""

FIELDS = tuple(field.name for field in fields(NewMessage))
fields_of: Callable[[NewMessage], tuple[Any, ...]] = attrgetter(*FIELDS)
TYPES: dict[str, set[type]] = {
    **{name: {NoneType} for name in FIELDS if name != "payload"},
    "handler": {str},
    "channel": {str},
    "queue": {str, NoneType},
    "headers": {dict, NoneType},
    "priority": {int},
    "dequeue_at": {datetime, NoneType},
    "delay": {timedelta, NoneType},
    "dedupe_key": {str, NoneType},
    "order_key": {str, NoneType},
}
"""The types that the fields of a message may have, unless ``bind`` looks at it. The payload may have any."""
NEEDED = {name for name, types in TYPES.items() if NoneType not in types}
CHECKS: dict[str, Callable[[Any], Any]] = {
    "handler": partial(checked_text, what="handler"),
    "channel": partial(checked_text, what="channel"),
    "queue": partial(optional_text, what="queue"),
    "priority": checked_priority,
    "dequeue_at": partial(aware, what="dequeue_at"),
    "delay": partial(checked_duration, what="delay"),
    "dedupe_key": partial(optional_text, what="dedupe_key"),
    "order_key": partial(optional_text, what="order_key"),
}

DEFAULTS = {"channel": "default", "queue": "default", "priority": 0, "max_attempts": 5}
"""The values that the ENQUEUE_COLUMNS function takes for a column that is not sent."""
TEXTS = {"channel", "queue", "handler"}
JSONS = {"payload", "headers"}
KEYS = {"dedupe_key", "order_key"}
NUMBERS = {"priority", "max_attempts"}
WRITTEN: dict[str, Callable[[Any], str]] = {
    "body": lambda body: f"\\x{body.hex()}",
    "dequeue_at": datetime.isoformat,
    "delay": duration_text,
    "backoff": duration_text,
    "backoff_longest": duration_text,
}
"""How the values of a column that may have NULLs are written."""


def columns_of(messages: Sequence[NewMessage]) -> Columns | None:
    """Return the columns of messages, with the values that ``bind`` returns for each; None if ``bind`` must look.

    It must look at each message if a codec encodes the payloads, if a message has a field that few have, or if a value
    is not allowed, because its exception names the message.
    """
    count = len(messages)
    # Most messages have few of the fields: a column of nothing but None is left out at once.
    given: Columns = {
        name: values
        for name, values in zip(FIELDS, zip(*map(fields_of, messages), strict=True), strict=True)
        if name in NEEDED or values.count(None) < count
    }
    if codecs.current() is not None or not all(
        TYPES[name].issuperset(map(type, values)) for name, values in given.items() if name != "payload"
    ):
        return None
    names = given["handler"]
    known = {name: handlers.find(name) for name in set(names)}
    if "" in given.get("queue", ()) or any(handler and handler.limits for handler in known.values()):
        return None
    most = settings.MAX_PAYLOAD
    try:
        for name, check in CHECKS.items():
            for value in set(given.get(name, ())):
                check(value)
        texts = {name: to_json_texts(given[name], name, most) for name in JSONS if name in given}
        if f'"{codecs.MARK}"' in SEPARATOR.join(filter(None, texts.get("payload", ()))):
            return None
        policies = {name: retry_policy(name) for name in known}
    except InvalidMessage:
        return None
    if sum(max(map(len, filter(None, column)), default=0) for column in texts.values()) > most:
        return None
    queues = {name: handler.queue if handler else "default" for name, handler in known.items()}
    if len(known) == 1:
        policy: Iterable[Sequence[Any]] = [[value] * count for value in policies[names[0]]]
    else:
        policy = zip(*map(policies.__getitem__, names), strict=True)
    if "queue" in given or len(known) > 1:
        queue = [queue or queues[name] for name, queue in zip(names, given.get("queue", repeat(None)), strict=False)]
    else:
        queue = [queues[names[0]]] * count
    return {
        **{name: given[name] for name in CHECKS if name in given},
        **texts,
        "queue": queue,
        **dict(zip(("max_attempts", "backoff", "backoff_factor", "backoff_longest"), policy, strict=True)),
    }


def parameters(columns: Columns) -> list[Any]:
    """Return the parameters of pgqueue_enqueue_many in the order of Bound.

    A column without values, or with the default of the function alone, is None: the server is spared an array.
    """
    return [parameter(name, columns[name]) if name in columns else None for name in Bound._fields]


def parameter(name: str, values: Sequence[Any]) -> Any:
    """Return one column as the statement takes it. Text is many times faster to write than lists are for psycopg."""
    count = len(values)
    if values.count(None) == count or (name in DEFAULTS and values.count(DEFAULTS[name]) == count):
        return None
    if name in TEXTS:
        return text_array(values)
    if name in NUMBERS:
        return f"{{{','.join(map(str, values))}}}"
    if name in JSONS:
        return json_texts(values)
    if name in KEYS:
        return json.dumps(values)
    if name == "limits":
        # Lists of several lengths are no array of PostgreSQL.
        return json_texts([to_json(names, name) if names else None for names in values])
    return plain_texts(values, WRITTEN.get(name, str))


def text_array(values: Sequence[str]) -> str:
    """Return the text of an array of texts, none of which contains NUL."""
    joined = "\0".join(values)
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{escaped}"}}'
