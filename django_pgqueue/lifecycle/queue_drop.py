"""queue_drop: remove a queue with its channels and schedules."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.arguments import boolean, text, whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = """
SELECT outcome = 'dropped', messages, channels, schedules, refusal
FROM pgqueue_queue_drop(%s::text, %s::boolean, %s::integer)
"""


@dataclass(frozen=True, slots=True)
class QueueDropped:
    """What one call of :func:`queue_drop` did. ``done``: the queue is gone; otherwise there is more to do.

    ``messages``: purged; ``channels``: released; ``schedules``: deleted; see also ``blocked``.
    """

    done: bool
    messages: int
    channels: int
    schedules: int

    @property
    def blocked(self) -> bool:
        """Whether the call changed nothing because other transactions hold locks on what is left: wait before the next
        one."""
        return not (self.done or self.messages or self.channels or self.schedules)


def queue_drop(*, queue: str, purge: bool = False, limit: int = 10_000, using: str | None = None) -> QueueDropped:
    """Remove a queue with its channels and schedules, up to ``limit`` messages and channels a call: call again until
    ``done``, and wait a second before the next call if the answer is ``blocked``.

    The queue is paused and its channels are released first, so that nothing comes or is delivered any more. With
    ``purge`` what waits goes to the archive as ``purged``. The archive and the dead letters stay. The sweep removes the
    rows of the channels, when no open transaction can still bring a message.

    Raises QueueNotEmpty while workers hold leases, or while messages wait and ``purge`` is false; ChannelNotFound for a
    queue without channels.
    """
    given = (text(queue, "queue"), boolean(purge, "purge"), whole(limit, "limit", least=1))
    return QueueDropped(*ask(alias(using), SQL, given)[0])
