"""channel_pause: stop the deliveries of a channel."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.lifecycle.arguments import aware, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_channel_pause(%s::text, %s::text, %s::text, %s::timestamptz)"


def channel_pause(
    *,
    channel: str,
    queue: str = "default",
    reason: str = "",
    until: datetime | None = None,
    using: str | None = None,
) -> None:
    """Stop the deliveries of one channel. Enqueue goes on, and messages that run now are not interrupted.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``reason``: shown in the admin, by
    explain and by the doctor. ``until``: an aware datetime at which the sweep resumes the channel; without it the
    pause lasts until :func:`channel_resume`. ``using``: database alias; default: the queue's.

    Raises ChannelNotFound, and InvalidMessage for a time in the past.
    """
    ask(
        alias(using),
        SQL,
        (
            checked_text(queue, "queue"),
            checked_text(channel, "channel"),
            checked_text(reason, "reason"),
            aware(until, "until"),
        ),
    )
