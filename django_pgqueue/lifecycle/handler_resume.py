"""handler_resume: deliver the messages of a paused handler again."""

from __future__ import annotations

from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.handlers import name_of
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def handler_resume(handler: str | AnyHandler, *, using: str | None = None) -> None:
    """End the pause of a handler, so that its messages are delivered again. A handler that is not paused stays so.

    ``handler``: its name, or the decorated function. ``using``: database alias; default: the queue's.

    Raises InvalidMessage.
    """
    call(alias(using), "SELECT pgqueue_handler_resume(%s::text)", (checked_text(name_of(handler), "handler"),))
