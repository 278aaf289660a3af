"""queue_pause: stop the deliveries of a whole queue."""

from __future__ import annotations

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def queue_pause(queue: str = "default", *, reason: str = "", using: str | None = None) -> None:
    """Deliver nothing more of the queue, whatever the channel; enqueue goes on. ``reason`` is shown to whoever looks.

    Raises ChannelNotFound for a queue without channels.
    """
    call(alias(using), "SELECT pgqueue_queue_pause(%s::text, %s::text)", (queue, reason))
