"""channel_resume: deliver a paused channel again."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask


def channel_resume(*, channel: str, queue: str = "default", using: str | None = None) -> None:
    """End the pause of a channel, so that its messages are delivered again.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``using``: database alias; default:
    the queue's.

    Raises ChannelNotFound.
    """
    ask(
        alias(using),
        "SELECT outcome, refusal FROM pgqueue_channel_resume(%s::text, %s::text)",
        (checked_text(queue, "queue"), checked_text(channel, "channel")),
    )
