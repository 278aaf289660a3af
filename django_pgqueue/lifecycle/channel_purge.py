"""channel_purge: archive the messages that wait on a channel."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_text, checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT messages, refusal FROM pgqueue_channel_purge(%s::text, %s::text, %s::integer)"


def channel_purge(*, channel: str, queue: str = "default", limit: int = 10_000, using: str | None = None) -> int:
    """Move ready and scheduled messages of a channel to the archive as ``purged``. Returns how many: call again until
    0.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``limit``: the most messages of one
    call. ``using``: database alias; default: the queue's.

    Raises ChannelNotFound.
    """
    purged: int
    given = (checked_text(queue, "queue"), checked_text(channel, "channel"), checked_whole(limit, "limit"))
    [(purged,)] = ask(alias(using), SQL, given)
    return purged
