"""tick: promote messages that are due and move the floors, a few times a second."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def tick(limit: int = 1000, *, using: str | None = None) -> int:
    """Make scheduled messages ready whose time has come, and move the floors of the line. Returns how many messages.

    ``limit``: the most messages of one call. ``using``: database alias; default: the queue's.
    """
    promoted: int = call(alias(using), "SELECT pgqueue_tick(%s::integer)", (checked_whole(limit, "limit", least=0),))[
        0
    ][0]
    return promoted
