"""limit_pause: stop the deliveries of all messages that have a shared limit."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.lifecycle.arguments import aware, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_limit_pause(%s::text, %s::text, %s::timestamptz)"


def limit_pause(name: str, *, reason: str = "", until: datetime | None = None, using: str | None = None) -> None:
    """Stop the deliveries of all messages that have a shared limit. Messages that run now are not interrupted.

    Messages that wait for it block no others of their channels, and no attempt is counted.

    ``name``: the limit's. ``reason``: shown in the admin and by explain. ``until``: an aware datetime at which the
    sweep resumes it; without it the pause lasts until :func:`limit_resume`. ``using``: database alias; default: the
    queue's.

    Raises InvalidMessage for an unknown limit, and for a time in the past.
    """
    ask(
        alias(using),
        SQL,
        (checked_text(name, "name"), checked_text(reason, "reason"), aware(until, "until")),
    )
