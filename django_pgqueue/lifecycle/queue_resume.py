"""queue_resume: deliver a paused queue again."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask


def queue_resume(queue: str = "default", *, using: str | None = None) -> None:
    """End the pause of a queue, and wake its sleeping workers. Raises ChannelNotFound for a queue without channels."""
    ask(alias(using), "SELECT outcome, refusal FROM pgqueue_queue_resume(%s::text)", (checked_text(queue, "queue"),))
