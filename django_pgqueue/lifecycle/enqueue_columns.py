"""Convert the messages of one bulk enqueue to the arrays of the SQL function, column by column.

Each distinct value of a column is checked once: most messages of a call have the same handler, channel and queue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat
from operator import attrgetter
from types import NoneType
from typing import Any

from django_pgqueue import codecs, handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json, to_json_texts
from django_pgqueue.lifecycle.arguments import aware, checked_duration, checked_text, optional_text
from django_pgqueue.lifecycle.enqueue_bind import Bound, checked_priority, retry_policy
from django_pgqueue.sql.values import SEPARATOR, duration_text, json_texts, plain_texts

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
"""The values that the SQL function takes for a column that is not sent."""
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
