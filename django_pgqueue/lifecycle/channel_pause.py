"""channel_pause: stop the deliveries of a channel."""

from __future__ import annotations

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def channel_pause(name: str, queue: str = "default", *, reason: str = "", using: str | None = None) -> None:
    """Deliver nothing more of the channel; enqueue goes on. ``reason`` is shown to whoever looks. Raises
    ChannelNotFound."""
    call(alias(using), "SELECT pgqueue_channel_pause(%s::text, %s::text, %s::text)", (name, queue, reason))
