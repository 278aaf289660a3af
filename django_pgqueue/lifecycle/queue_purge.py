"""queue_purge: archive the messages that wait on all channels of a queue."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_text, checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT messages, refusal FROM pgqueue_queue_purge(%s::text, %s::integer)"


def queue_purge(*, queue: str, limit: int = 10_000, using: str | None = None) -> int:
    """Move ready and scheduled messages of all channels to the archive as ``purged``. Returns how many: call again
    until 0.

    ``queue``: its name. ``limit``: the most messages of one call. ``using``: database alias; default: the queue's.
    Leased messages stay with their workers.

    Raises ChannelNotFound for a queue without channels.
    """
    purged: int
    [(purged,)] = ask(alias(using), SQL, (checked_text(queue, "queue"), checked_whole(limit, "limit", least=0)))
    return purged
