"""breaker_set: give a handler a breaker, change it, or take it away."""

from __future__ import annotations

from django_pgqueue.breakers import Breaker
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.handlers import name_of
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_breaker_set(%s::text, %s::jsonb)"


def breaker_set(handler: str | AnyHandler, breaker: Breaker | None, *, using: str | None = None) -> str:
    """Give a handler a breaker, or change it. It holds from the next dequeue on, for all workers together.

    A worker that starts writes what ``@handler(breaker=…)`` declares over this, for the handlers that it has.

    ``handler``: its name, or the decorated function. ``breaker``: None takes the breaker away; what waits goes on.
    ``using``: database alias; default: the queue's.

    Returns ``created``, ``changed``, ``dropped`` or ``not_found``. Raises InvalidMessage.
    """
    if breaker is not None and not isinstance(breaker, Breaker):
        raise InvalidMessage(f"breaker is not a Breaker but {type(breaker).__name__}", hint="Give Breaker(…), or None.")
    settings = None if breaker is None else to_json(breaker.settings(), "breaker")
    outcome: str = ask(alias(using), SQL, (checked_text(name_of(handler), "handler"), settings))[0][0]
    return outcome
