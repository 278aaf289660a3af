"""breakers: list the breakers of handlers, and which of them are open."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

MOST_ROWS = 1_000
# The function counts no more messages of one breaker.
MOST_WAITING = 1_000
SQL = """
SELECT id, handler, per, queue, channel, state, opened_at, until, waiting, openings FROM pgqueue_breakers(%s::integer)
"""


class NamedByHandler:
    """Name a breaker by its fields ``handler``, ``queue`` and ``channel``."""

    __slots__ = ()
    handler: str
    queue: str | None
    channel: str | None

    def name(self) -> str:
        """Return the handler, with the queue and the channel of a breaker by channel."""
        return self.handler if self.channel is None else f"{self.handler} of {self.queue}/{self.channel}"


@dataclass(frozen=True, slots=True)
class BreakerState(NamedByHandler):
    """Report one breaker of a handler, or of a handler and channel.

    ``id``: that of its shared limit. ``per``: ``handler`` or ``channel``; ``queue``, ``channel``: None for that of a
    handler. ``state``: ``closed``, ``open``, or ``trying`` when the pause is over and one message at a time may try.
    ``until``: the end of the pause. ``waiting``: messages that wait for it, 1,000 at most. ``openings``: how often it
    has opened.
    """

    id: int
    handler: str
    per: str
    queue: str | None
    channel: str | None
    state: str
    opened_at: datetime | None
    until: datetime | None
    waiting: int
    openings: int

    @property
    def waiting_text(self) -> str:
        """Return how many messages wait: ``17``, or ``1,000+`` if there may be more."""
        return f"{self.waiting:,}{'+' if self.waiting >= MOST_WAITING else ''}"

    @property
    def is_open(self) -> bool:
        """Return whether messages wait for it, also while one may try."""
        return self.state != "closed"

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


def breakers(*, most: int = MOST_ROWS, using: str | None = None) -> list[BreakerState]:
    """Return the breakers of handlers, and the open ones of channels; the longest open first.

    ``most``: the most that are returned. ``using``: database alias; default: the queue's.
    """
    return [BreakerState(*row) for row in call(alias(using), SQL, (most,))]
