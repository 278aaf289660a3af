"""Call one handler in a unit test, without a database, a worker or a transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.utils import timezone

from django_pgqueue import handlers
from django_pgqueue.delivery import NO_PAYLOAD, Delivery
from django_pgqueue.jsonb import from_json, to_json
from django_pgqueue.lifecycle.new_messages import retry_policy
from django_pgqueue.outcomes import Complete, Outcome
from django_pgqueue.worker.executor import invalid_answer

LEASE = timedelta(hours=1)


def make_delivery(handler: str | Callable[..., Any], payload: Any = NO_PAYLOAD, **fields: Any) -> Delivery:
    """Return a delivery as a worker would make it: its first attempt, on the channel ``default``, enqueued just now.

    ``handler``: a name, or the registered function. ``payload``, and ``headers`` and ``state`` in ``fields``, are
    converted to JSON and back. ``fields``: those of :class:`django_pgqueue.Delivery`. Raises UnknownHandler,
    InvalidMessage for values that are not JSON, and TypeError for an unknown field.
    """
    known = handlers.get(handlers.name_of(handler))
    now = timezone.now()
    given = {
        "id": 1,
        "queue": known.queue,
        "channel": "default",
        "body": None,
        "headers": {},
        "priority": 0,
        "attempt": 1,
        "max_attempts": retry_policy(known.name)[0],
        "token": None,
        "lease_expires_at": now + LEASE,
        "state": None,
        "created_at": now,
        "dequeue_at": now,
        **fields,
    }
    for name in ("headers", "state", "channel_context"):
        if name in given:
            given[name] = as_stored(given[name], name)
    stored = {} if payload is NO_PAYLOAD else as_stored(payload, "payload", rows=known.takes_rows)
    return Delivery(handler=known.name, payload=stored, **given)


def run_handler(handler: str | Callable[..., Any], payload: Any = NO_PAYLOAD, **fields: Any) -> Outcome:
    """Call a handler for one delivery, and return its outcome: Complete() if it returns None.

    The arguments are those of :func:`make_delivery`. An exception of the handler that is not an outcome is raised. The
    function is called directly: without HANDLER_MIDDLEWARE, timeout and transaction, also if it is ``atomic``. An async
    one is awaited. One with ``batch`` gets a list of one. Raises HandlerError for an answer that is no outcome.
    """
    delivery = make_delivery(handler, payload, **fields)
    known = handlers.get(delivery.handler)
    function = async_to_sync(known.function) if known.asynchronous else known.function
    try:
        answer = function([delivery] if known.batch else delivery)
    except Outcome as outcome:
        return outcome
    if known.batch and answer is not None:
        if not isinstance(answer, dict) or not answer.keys() <= {delivery.id}:
            raise invalid_answer(delivery, answer, batch=True)
        answer = answer.get(delivery.id)
    if answer is None:
        return Complete()
    if not isinstance(answer, Outcome):
        raise invalid_answer(delivery, answer)
    return answer


def as_stored(value: Any, what: str, *, rows: bool = False) -> Any:
    """Return the value as the database would return it: lists for tuples, text for dates, with ``rows`` references."""
    return from_json(to_json(value, what, rows=rows))
