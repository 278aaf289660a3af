"""breaker_changes: take what happened to breakers, so that it is reported once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django_pgqueue.lifecycle.breakers import NamedByHandler
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT at, change, handler, queue, channel, until, message_id FROM pgqueue_breaker_changes()"


@dataclass(frozen=True, slots=True)
class BreakerChange(NamedByHandler):
    """Report that the breaker of a handler has opened, lets a message try, or has closed.

    ``at``: by the clock of the database. ``queue``, ``channel``: of a breaker by channel, else None. ``until``: when a
    breaker that has opened lets a message try. ``message_id``: the message that tries.
    """

    at: datetime
    change: Literal["opened", "tried", "closed"]
    handler: str
    queue: str | None
    channel: str | None
    until: datetime | None
    message_id: int | None


def breaker_changes(*, using: str | None = None) -> list[BreakerChange]:
    """Return what happened to breakers since the last call of any process, in the order of time; at most 1,000 changes.

    ``using``: database alias; default: the queue's.
    """
    return [BreakerChange(*row) for row in call(alias(using), SQL)]
