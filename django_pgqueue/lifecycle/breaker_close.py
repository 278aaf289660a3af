"""breaker_close: close the breaker of a handler by hand."""

from __future__ import annotations

from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.handlers import name_of
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_breaker_close(%s::text, %s::text, %s::text)"


def breaker_close(
    handler: str | AnyHandler, *, channel: str | None = None, queue: str = "default", using: str | None = None
) -> None:
    """Close the breaker of a handler by hand, when the cause is gone: its messages go on at once.

    Failures are counted anew. A breaker that is not open stays closed.

    ``handler``: its name, or the decorated function. ``channel``, ``queue``: the channel of a breaker by channel.
    ``using``: database alias; default: the queue's.

    Raises InvalidMessage if there is no such breaker.
    """
    given = None if channel is None else checked_text(channel, "channel")
    name = checked_text(name_of(handler), "handler")
    ask(alias(using), SQL, (name, checked_text(queue, "queue"), given))
