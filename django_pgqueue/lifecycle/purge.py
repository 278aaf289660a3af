"""purge: remove what waits on a channel."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import text, whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT messages, refusal FROM pgqueue_purge(%s::text, %s::text, %s::integer)"


def purge(*, channel: str, queue: str = "default", limit: int = 10_000, using: str | None = None) -> int:
    """Move up to ``limit`` ready and scheduled messages to the archive as ``purged``. Returns how many: call again
    until 0.

    Raises ChannelNotFound.
    """
    purged: int
    given = (text(queue, "queue"), text(channel, "channel"), whole(limit, "limit"))
    [(purged,)] = ask(alias(using), SQL, given)
    return purged
