"""limit_resume: deliver the messages of a paused shared limit again."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask


def limit_resume(name: str, *, using: str | None = None) -> None:
    """End the pause of a shared limit, so that its messages are delivered again.

    ``name``: the limit's. ``using``: database alias; default: the queue's.

    Raises InvalidMessage for an unknown limit.
    """
    ask(alias(using), "SELECT outcome, refusal FROM pgqueue_limit_resume(%s::text)", (checked_text(name, "name"),))
