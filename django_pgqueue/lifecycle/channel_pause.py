"""channel_pause: stop the deliveries of a channel."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.lifecycle.binding import aware
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT pgqueue_channel_pause(%s::text, %s::text, %s::text, %s::timestamptz)"


def channel_pause(
    name: str, queue: str = "default", *, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Deliver nothing more of the channel; enqueue goes on. ``reason`` is shown to whoever looks. At ``until`` (aware)
    the sweep resumes it; without it somebody has to.

    Raises ChannelNotFound; InvalidMessage for a time that has passed.
    """
    call(alias(using), SQL, (name, queue, reason, aware(until, "until")))
