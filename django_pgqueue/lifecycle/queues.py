"""Set, pause, resume, purge and drop a whole queue; list the queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django_pgqueue.lifecycle.arguments import boolean, checked_text, checked_whole, pause_of, settings_as_json
from django_pgqueue.outcomes import KEEP, Archive, Keep
from django_pgqueue.sql.call import ask, call

QUEUE_SET = "SELECT outcome, refusal FROM pgqueue_queue_set(%s::text, %s::jsonb)"


def queue_set(
    queue: str = "default",
    *,
    archive: Archive | Keep = KEEP,
    events: bool | Keep = KEEP,
    retention: timedelta | Keep | None = KEEP,
    dead_letter_retention: timedelta | Keep | None = KEEP,
    max_concurrency: int | Keep | None = KEEP,
    rate: str | Keep | None = KEEP,
    fairness: Literal["turns", "share"] | Keep = KEEP,
    max_share: float | Keep | None = KEEP,
    forgive: bool = False,
    using: str | None = None,
) -> None:
    """Change the settings of a whole queue; a setting that is not given stays as it is.

    ``queue``: its name. ``archive``: what the archive keeps of its messages, unless their channel or the call says
    otherwise: ``full``, ``outcome`` or ``none``. It applies to messages that are settled from now on. A dead letter is
    always kept whole. ``events``: whether the queue sends :mod:`its events <django_pgqueue.events>`.

    ``retention``, ``dead_letter_retention``: how long its archived messages and its dead letters are kept (a
    timedelta); None: as the settings ARCHIVE_RETENTION and DEAD_LETTER_RETENTION say. The archive counts whole days.

    ``max_concurrency``: messages of all its channels that may be leased at the same time; None: no limit. ``rate``:
    deliveries of all its channels in a time, such as ``"10/m"`` or ``"100/s burst 50"``; None: no limit. Both hold from
    the next dequeue on, for all workers together.

    ``fairness``: ``turns`` serves the channels round robin; with ``share``, a channel has no turn while it holds its
    share of the leases of the queue, by weight, and another one waits. ``max_share``: the part of the slots of the live
    workers that one channel may hold, above 0 and up to 1, so that the rest is free for others; None: no limit.
    ``forgive``: True ends the debt of the rate, which messages have left that cost more than its burst. ``using``:
    database alias; default: the queue's.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a value that is not allowed.
    """
    settings = settings_as_json(
        rate=rate, archive=archive, events=events, retention=retention, dead_letter_retention=dead_letter_retention,
        max_concurrency=max_concurrency, fairness=fairness, max_share=max_share, forgive=forgive or KEEP,
    )  # fmt: skip
    ask(using, QUEUE_SET, (checked_text(queue, "queue"), settings))


QUEUE_PAUSE = "SELECT outcome, refusal FROM pgqueue_queue_pause(%s::text, %s::text, %s::timestamptz)"


def queue_pause(
    queue: str = "default", *, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Stop the deliveries of all channels of a queue. Enqueue goes on, and messages that run now are not interrupted.

    ``queue``: its name. ``reason``: shown in the admin, by explain and by the doctor. ``until``: an aware datetime at
    which the sweep resumes the queue; without it the pause lasts until :func:`queue_resume`. ``using``: database alias;
    default: the queue's.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a time in the past.
    """
    ask(using, QUEUE_PAUSE, (checked_text(queue, "queue"), *pause_of(reason, until)))


def queue_resume(queue: str = "default", *, using: str | None = None) -> None:
    """End the pause of a queue, and wake its sleeping workers. Raises ChannelNotFound for a queue without channels."""
    ask(using, "SELECT outcome, refusal FROM pgqueue_queue_resume(%s::text)", (checked_text(queue, "queue"),))


QUEUE_PURGE = "SELECT messages, refusal FROM pgqueue_queue_purge(%s::text, %s::integer)"


def queue_purge(*, queue: str, limit: int = 10_000, using: str | None = None) -> int:
    """Move ready and scheduled messages of all channels to the archive as ``purged``. Returns how many: call again
    until 0.

    ``queue``: its name. ``limit``: the most messages of one call. ``using``: database alias; default: the queue's.
    Leased messages stay with their workers.

    Raises ChannelNotFound for a queue without channels.
    """
    [(purged,)] = ask(using, QUEUE_PURGE, (checked_text(queue, "queue"), checked_whole(limit, "limit", least=0)))
    return int(purged)


QUEUE_DROP = """
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
    return QueueDropped(*ask(using, QUEUE_DROP, given)[0])


# One look-up in the index for each queue, however many channels each of them has.
QUEUE_NAMES = """
WITH RECURSIVE name AS (
    SELECT min(c.queue) AS queue FROM pgqueue_channel AS c
    UNION ALL
    SELECT (SELECT min(c.queue) FROM pgqueue_channel AS c WHERE c.queue > n.queue)
    FROM name AS n
    WHERE n.queue IS NOT NULL
)
SELECT n.queue::text FROM name AS n WHERE n.queue IS NOT NULL
"""


def queue_names(*, using: str | None = None) -> tuple[str, ...]:
    """Return the names of the queues that have a channel, in alphabetical order."""
    return tuple(name for (name,) in call(using, QUEUE_NAMES))
