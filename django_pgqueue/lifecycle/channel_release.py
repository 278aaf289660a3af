"""channel_release: drain a channel, then remove it."""

from __future__ import annotations

from django.db import transaction

from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask, call

SQL = "SELECT outcome, refusal FROM pgqueue_channel_release(%s::text, %s::text)"


def channel_release(*, channel: str, queue: str = "default", using: str | None = None) -> None:
    """Release a channel: it refuses new messages, delivers those that it has without limits, and is then removed.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``using``: database alias; default:
    the queue's. An empty channel is removed when the release has committed, unless another open transaction may still
    bring a message; then a sweep removes it.

    Raises ChannelNotFound.
    """
    database = alias(using)
    ask(database, SQL, (checked_text(queue, "queue"), checked_text(channel, "channel")))
    transaction.on_commit(lambda: call(database, "SELECT pgqueue_remove_released()"), using=database, robust=True)
