"""limit_drop: delete a shared limit."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def limit_drop(name: str, *, using: str | None = None) -> bool:
    """Delete a shared limit. Messages that wait for it run without it.

    ``name``: the limit's. ``using``: database alias; default: the queue's. A limit that code or the setting LIMITS
    declares comes back when a worker starts: remove the declaration first.

    Returns whether there was a limit of this name. Raises InvalidMessage.
    """
    [(outcome,)] = call(alias(using), "SELECT pgqueue_limit_drop(%s::text)", (checked_text(name, "name"),))
    return bool(outcome == "dropped")
