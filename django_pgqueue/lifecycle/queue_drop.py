"""queue_drop: remove a queue with its channels and schedules."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.arguments import boolean, checked_text, checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = """
SELECT outcome = 'dropped', messages, channels, schedules, refusal
FROM pgqueue_queue_drop(%s::text, %s::boolean, %s::integer)
"""


@dataclass(frozen=True, slots=True)
class QueueDropped:
    """Report one call of :func:`queue_drop`. ``done``: the queue is gone; if it is False, call again.

    ``messages``: purged; ``channels``: released; ``schedules``: deleted; see also ``blocked``.
    """

    done: bool
    messages: int
    channels: int
    schedules: int

    @property
    def blocked(self) -> bool:
        """Return whether the call changed nothing because other transactions hold locks: wait before the next call."""
        return not (self.done or self.messages or self.channels or self.schedules)


def queue_drop(*, queue: str, purge: bool = False, limit: int = 10_000, using: str | None = None) -> QueueDropped:
    """Remove a queue with its channels and schedules: call again until ``done``.

    ``queue``: its name. ``purge``: move the messages that wait to the archive as ``purged``. ``limit``: the most
    messages and channels of one call. ``using``: database alias; default: the queue's. If the answer is ``blocked``,
    wait a second before the next call.

    The queue is paused and its channels are released first, so that nothing is enqueued or delivered any more. The
    archive and the dead letters stay. The sweep removes the rows of the channels when no open transaction can still
    bring a message.

    Raises QueueNotEmpty while workers hold leases, or while messages wait and ``purge`` is false; ChannelNotFound for a
    queue without channels.
    """
    given = (checked_text(queue, "queue"), boolean(purge, "purge"), checked_whole(limit, "limit", least=1))
    return QueueDropped(*ask(alias(using), SQL, given)[0])
