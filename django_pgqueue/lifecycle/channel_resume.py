"""channel_resume: deliver a paused channel again."""

from __future__ import annotations

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def channel_resume(name: str, queue: str = "default", *, using: str | None = None) -> None:
    """End the pause of a channel. Raises ChannelNotFound."""
    call(alias(using), "SELECT pgqueue_channel_resume(%s::text, %s::text)", (name, queue))
