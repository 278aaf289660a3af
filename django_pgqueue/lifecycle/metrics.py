"""metrics: report the length by state, the ages and the totals of each channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django_pgqueue.lifecycle.arguments import optional_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import with_durations

SQL = """
SELECT queue, channel, ready, leased, scheduled, waiting_for_limit, waiting_for_order_key, dead,
    extract(epoch FROM oldest), extract(epoch FROM newest), total
FROM pgqueue_metrics(%s::text, %s::text, %s::boolean)
"""


@dataclass(frozen=True, slots=True)
class ChannelMetrics:
    """Report one channel: its messages by state, and the ages of its oldest and newest ready messages.

    ``waiting_for_limit``: messages that wait for a full shared limit; ``waiting_for_order_key``: those that wait for
    the message before them of their order key; ``scheduled``: those that wait for their time. ``total``: messages ever
    enqueued; None if it was not asked for.
    """

    queue: str
    channel: str
    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int
    waiting_for_order_key: int
    dead: int
    oldest_age: timedelta | None
    newest_age: timedelta | None
    total: int | None


def metrics(
    queue: str | None = None, *, channel: str | None = None, totals: bool = True, using: str | None = None
) -> list[ChannelMetrics]:
    """Return the metrics of all channels, or of one queue or channel.

    ``queue``, ``channel``: their names; default: all. ``totals``: count the messages that were ever enqueued, which
    reads the archive: leave it out in frequent monitors. ``using``: database alias; default: the queue's.
    """
    return [
        ChannelMetrics(*with_durations(row, 8, 9))
        for row in call(alias(using), SQL, (optional_text(queue, "queue"), optional_text(channel, "channel"), totals))
    ]
