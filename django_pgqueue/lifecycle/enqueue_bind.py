"""Check one new message, and convert it to the parameters of the SQL functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_pgqueue import codecs, handlers
from django_pgqueue.backoff import Constant, Exponential, Policy, policy_columns
from django_pgqueue.conf import settings
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import limit_size, to_json
from django_pgqueue.lifecycle.arguments import aware, checked_duration, checked_text, checked_whole, optional_text
from django_pgqueue.limits import limit_names
from django_pgqueue.unique import Debounce, Unique


class Bound(NamedTuple):
    """Hold the parameters of one message, by the names that they have in the SQL function."""

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
    most, body = settings.MAX_PAYLOAD, message.body or b""
    headers, payload = to_json(message.headers, "headers", most), to_json(message.payload, "payload", most)
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
