"""handler_pause: stop the deliveries of all messages of a handler."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.handlers import name_of
from django_pgqueue.lifecycle.arguments import aware, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_handler_pause(%s::text, %s::text, %s::timestamptz)"


def handler_pause(
    handler: str | AnyHandler, *, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Stop the deliveries of all messages of a handler, in every channel and queue. Enqueue goes on, and messages that
    run now are not interrupted.

    Messages that wait block no others of their channels, and no attempt is counted. The pause is that of a shared
    limit, which is called ``handler`` and the handler's name, and stays after :func:`handler_resume`.

    ``handler``: its name, or the decorated function. ``reason``: shown in the admin and by explain. ``until``: an aware
    datetime at which the sweep resumes it; without it the pause lasts until :func:`handler_resume`. ``using``: database
    alias; default: the queue's.

    Raises InvalidMessage for a time in the past.
    """
    ask(
        alias(using),
        SQL,
        (checked_text(name_of(handler), "handler"), checked_text(reason, "reason"), aware(until, "until")),
    )
