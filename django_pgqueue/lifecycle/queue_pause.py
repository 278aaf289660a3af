"""queue_pause: stop the deliveries of a whole queue."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.lifecycle.arguments import aware, text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_queue_pause(%s::text, %s::text, %s::timestamptz)"


def queue_pause(
    queue: str = "default", *, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Deliver nothing more of the queue, whatever the channel; enqueue goes on. ``reason`` is shown to whoever looks.
    At ``until`` (aware) the sweep resumes it; without it somebody has to.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a time that has passed.
    """
    ask(alias(using), SQL, (text(queue, "queue"), text(reason, "reason"), aware(until, "until")))
