"""breaker_open: open the breaker of a handler by hand."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.handlers import name_of
from django_pgqueue.lifecycle.arguments import aware, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_breaker_open(%s::text, %s::text, %s::text, %s::timestamptz)"


def breaker_open(
    handler: str | AnyHandler,
    *,
    channel: str | None = None,
    queue: str = "default",
    until: datetime | None = None,
    using: str | None = None,
) -> None:
    """Open the breaker of a handler by hand: its messages wait, and one of them tries later, as after failures.

    ``handler``: its name, or the decorated function. ``channel``, ``queue``: the channel of a breaker by channel.
    ``until``: an aware datetime; default: after the pause of the breaker. ``using``: database alias; default: the
    queue's.

    To stop a handler until you say so, use :func:`handler_pause`. Raises InvalidMessage if there is no such breaker.
    """
    given = None if channel is None else checked_text(channel, "channel")
    name = checked_text(name_of(handler), "handler")
    ask(alias(using), SQL, (name, checked_text(queue, "queue"), given, aware(until, "until")))
