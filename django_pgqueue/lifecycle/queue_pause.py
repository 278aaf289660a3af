"""queue_pause: stop the deliveries of a whole queue."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.lifecycle.arguments import aware, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_queue_pause(%s::text, %s::text, %s::timestamptz)"


def queue_pause(
    queue: str = "default", *, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Stop the deliveries of all channels of a queue. Enqueue goes on, and messages that run now are not interrupted.

    ``queue``: its name. ``reason``: shown in the admin, by explain and by the doctor. ``until``: an aware datetime at
    which the sweep resumes the queue; without it the pause lasts until :func:`queue_resume`. ``using``: database alias;
    default: the queue's.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a time in the past.
    """
    ask(alias(using), SQL, (checked_text(queue, "queue"), checked_text(reason, "reason"), aware(until, "until")))
