"""channel_release: let a channel run dry and go."""

from __future__ import annotations

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def channel_release(name: str, queue: str = "default", *, using: str | None = None) -> None:
    """No new messages; what is there drains without limits; then the channel is removed. Raises ChannelNotFound."""
    call(alias(using), "SELECT pgqueue_channel_release(%s::text, %s::text)", (name, queue))
