"""queue_purge: remove what waits on all channels of a queue."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import text, whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT messages, refusal FROM pgqueue_queue_purge(%s::text, %s::integer)"


def queue_purge(*, queue: str, limit: int = 10_000, using: str | None = None) -> int:
    """Move up to ``limit`` ready and scheduled messages of the queue, whatever the channel, to the archive as
    ``purged``. Returns how many: call again until 0. What is leased stays with its worker.

    Raises ChannelNotFound for a queue without channels.
    """
    purged: int
    [(purged,)] = ask(alias(using), SQL, (text(queue, "queue"), whole(limit, "limit", least=0)))
    return purged
