"""Set, open, close and list the breakers of handlers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from django_pgqueue.breakers import Breaker
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.handlers import AnyHandler
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import aware, checked_text, handler_name, optional_text
from django_pgqueue.sql.call import ask, call

MOST_ROWS = 1_000
# The function counts no more messages of one breaker.
MOST_WAITING = 1_000
BREAKERS = """
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
    return [BreakerState(*row) for row in call(using, BREAKERS, (most,))]


BREAKER_SET = "SELECT outcome, refusal FROM pgqueue_breaker_set(%s::text, %s::jsonb)"


def breaker_set(handler: str | AnyHandler, breaker: Breaker | None, *, using: str | None = None) -> str:
    """Give a handler a breaker, or change it. It holds from the next dequeue on, for all workers together.

    A worker that starts writes what ``@handler(breaker=…)`` declares over this, for the handlers that it has.

    ``handler``: its name, or the decorated function. ``breaker``: None takes the breaker away; what waits goes on.
    ``using``: database alias; default: the queue's.

    Returns ``created``, ``changed``, ``dropped`` or ``not_found``. Raises InvalidMessage.
    """
    if breaker is not None and not isinstance(breaker, Breaker):
        raise InvalidMessage(f"breaker is not a Breaker but {type(breaker).__name__}", hint="Give Breaker(…), or None.")
    settings = None if breaker is None else to_json(breaker.settings(), "breaker")
    return str(ask(using, BREAKER_SET, (handler_name(handler), settings))[0][0])


BREAKER_OPEN = "SELECT outcome, refusal FROM pgqueue_breaker_open(%s::text, %s::text, %s::text, %s::timestamptz)"


def breaker_open(
    handler: str | AnyHandler,
    *,
    channel: str | None = None,
    queue: str = "default",
    until: datetime | None = None,
    using: str | None = None,
) -> None:
    """Open the breaker of a handler by hand: its messages wait, and one of them tries later, as after failures.

    ``handler``: its name, or the decorated function. ``channel``, ``queue``: the channel of a breaker by channel.
    ``until``: an aware datetime; default: after the pause of the breaker. ``using``: database alias; default: the
    queue's.

    To stop a handler until you say so, use :func:`handler_pause`. Raises InvalidMessage if there is no such breaker.
    """
    names = handler_name(handler), checked_text(queue, "queue"), optional_text(channel, "channel")
    ask(using, BREAKER_OPEN, (*names, aware(until, "until")))


BREAKER_CLOSE = "SELECT outcome, refusal FROM pgqueue_breaker_close(%s::text, %s::text, %s::text)"


def breaker_close(
    handler: str | AnyHandler, *, channel: str | None = None, queue: str = "default", using: str | None = None
) -> None:
    """Close the breaker of a handler by hand, when the cause is gone: its messages go on at once.

    Failures are counted anew. A breaker that is not open stays closed.

    ``handler``: its name, or the decorated function. ``channel``, ``queue``: the channel of a breaker by channel.
    ``using``: database alias; default: the queue's.

    Raises InvalidMessage if there is no such breaker.
    """
    names = handler_name(handler), checked_text(queue, "queue"), optional_text(channel, "channel")
    ask(using, BREAKER_CLOSE, names)


BREAKER_CHANGES = "SELECT at, change, handler, queue, channel, until, message_id FROM pgqueue_breaker_changes()"


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
    return [BreakerChange(*row) for row in call(using, BREAKER_CHANGES)]


OPEN_BREAKERS = "SELECT * FROM pgqueue_open_breakers(%s::text[], %s::text[], %s::text[])"


class OpenBreaker(NamedTuple):
    """Name a breaker that is open. ``queue``, ``channel``: None for one that applies to all channels."""

    handler: str
    queue: str | None
    channel: str | None


def open_breakers(failed: Iterable[Delivery], *, using: str) -> list[OpenBreaker]:
    """Return the breakers of these messages that are open, also those for which nobody has written it down yet."""
    asked = {(delivery.handler, delivery.queue, delivery.channel) for delivery in failed}
    columns = [list(column) for column in zip(*asked, strict=True)]
    return [OpenBreaker(*row) for row in call(using, OPEN_BREAKERS, columns)]
