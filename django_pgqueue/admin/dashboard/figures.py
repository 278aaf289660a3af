"""Read the present figures of queues, channels, workers and schedules, with a fixed number of queries; none counts
messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django_pgqueue.admin.counts import LiveCounts
from django_pgqueue.admin.dashboard.spans import Key, floored
from django_pgqueue.admin.filters import MOST_DEAD
from django_pgqueue.conf import settings
from django_pgqueue.jsonb import from_json
from django_pgqueue.sql.call import call

MOST_NAMES = 1_000
MOST_QUEUES, MOST_CHANNELS, MOST_WORKERS, MOST_SCHEDULES = 20, 20, 20, 10
MOST_SHOWN_RUNNING = 3
MEASURED = """
SELECT clock_timestamp(),
    (SELECT m.measured_at FROM pgqueue_measurement AS m ORDER BY m.id DESC LIMIT 1),
    (SELECT m.counted_at FROM pgqueue_measurement AS m ORDER BY m.id DESC LIMIT 1),
    EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.redriven_at IS NULL)
"""
QUEUE_FIGURES = """
SELECT n.queue, coalesce(b.ready, 0), coalesce(b.leased, 0), coalesce(b.scheduled - b.blocked, 0),
    coalesce(b.waiting_for_limit, 0), coalesce(b.waiting_for_order_key, 0), coalesce(b.blocked, 0), coalesce(b.dead, 0),
    b.oldest_at, q.paused_at IS NOT NULL,
    coalesce(left(q.pause_reason, 200), ''), (
        SELECT count(*) FROM pgqueue_worker AS w
        WHERE w.queues ? n.queue AND w.heartbeat_at > clock_timestamp() - %s::interval AND w.state <> 'stopping'
    )
FROM unnest(%s::text[]) AS n (queue)
LEFT JOIN pgqueue_backlog AS b ON b.queue = n.queue AND b.channel IS NULL
LEFT JOIN pgqueue_queue AS q ON q.name = n.queue
ORDER BY coalesce(b.ready, 0) + coalesce(b.dead, 0) DESC, n.queue
LIMIT %s
"""
# The dead letters of the last hour and day that were not redriven, of queues and of some channels.
DIED = """
SELECT l.queue, l.channel, count(*) FILTER (WHERE l.dead_at > clock_timestamp() - interval '1 hour'), count(*)
FROM (
    SELECT d.queue, d.channel, d.dead_at, d.redriven_at, d.reason
    FROM pgqueue_dead_letter AS d
    ORDER BY d.id DESC
    LIMIT %(most)s
) AS l
WHERE l.redriven_at IS NULL AND l.reason <> 'discarded' AND l.dead_at > clock_timestamp() - interval '1 day'
GROUP BY GROUPING SETS ((l.queue), (l.queue, l.channel))
HAVING l.channel IS NULL
    OR (l.queue, l.channel) IN (SELECT * FROM unnest(%(queues)s::text[], %(channels)s::text[]))
"""
# The recent figures of all channels are read only if the page is ordered by them.
CHANNELS = """
SELECT c.id, c.queue::text, c.name::text, c.paused_at IS NOT NULL, c.released_at IS NOT NULL,
    c.max_concurrency, c.max_size,
    CASE WHEN c.release_interval NOT BETWEEN '0' AND '365000 days' THEN '365000 days' ELSE c.release_interval END,
    coalesce(b.ready, 0), coalesce(b.leased, 0), coalesce(b.scheduled - b.blocked, 0), coalesce(b.waiting_for_limit, 0),
    coalesce(b.waiting_for_order_key, 0), coalesce(b.blocked, 0), coalesce(b.dead, 0), b.oldest_at
FROM pgqueue_channel AS c
LEFT JOIN pgqueue_backlog AS b ON b.queue = c.queue AND b.channel = c.name
{join}
WHERE (%(queue)s::text IS NULL OR c.queue = %(queue)s::text) AND (%(name)s = '' OR strpos(c.name, %(name)s) > 0)
ORDER BY {order}, c.queue, c.name
LIMIT %(limit)s OFFSET %(offset)s
"""
LATELY = """
LEFT JOIN (
    SELECT a.queue, a.channel, sum({sum}) AS messages
    FROM pgqueue_activity AS a
    WHERE a.minutes = 10 AND a.bucket_at >= {since} AND a.channel IS NOT NULL AND {which}
    GROUP BY a.queue, a.channel
) AS h ON h.queue = c.queue AND h.channel = c.name
"""
ERRORS = LATELY.format(sum="a.dead", since="%(hour_ago)s", which="a.dead > 0")
# All channels have rows here, so it is the present ten minutes and those before them.
BUSY = LATELY.format(sum="a.completed + a.cancelled + a.dead", since="%(minutes_ago)s", which="true")
FULL = """greatest(
    coalesce(b.leased, 0)::float / c.max_concurrency,
    coalesce(b.ready + b.leased + b.scheduled + b.waiting_for_limit + b.waiting_for_order_key, 0)::float / c.max_size
) DESC NULLS LAST, coalesce(b.ready, 0) DESC"""
ORDERS = {
    "backlog": "coalesce(b.ready, 0) DESC, coalesce(b.dead, 0) DESC",
    "oldest": "b.oldest_at ASC NULLS LAST",
    "dead": "coalesce(b.dead, 0) DESC, coalesce(b.ready, 0) DESC",
    "errors": "coalesce(h.messages, 0) DESC, coalesce(b.dead, 0) DESC",
    "busy": "coalesce(h.messages, 0) DESC",
    "limits": FULL,
    "name": "c.name",
}
JOINS = {"errors": ERRORS, "busy": BUSY}
# Channels that wait for their own limit, the longest line first.
LIMITED = """
SELECT c.queue::text, c.name::text, c.id, b.leased, c.max_concurrency, b.ready, count(*) OVER ()
FROM pgqueue_backlog AS b
JOIN pgqueue_channel AS c ON c.queue = b.queue AND c.name = b.channel
WHERE b.channel IS NOT NULL AND b.ready > 0 AND b.leased >= c.max_concurrency AND c.paused_at IS NULL
    AND (%(queue)s::text IS NULL OR c.queue = %(queue)s::text)
ORDER BY b.ready DESC
LIMIT 1
"""
WORKERS = """
SELECT w.name, w.state, w.paused_at IS NOT NULL, w.queues, w.concurrency, w.running,
    extract(epoch FROM clock_timestamp() - w.heartbeat_at)::float,
    count(*) OVER (),
    count(*) FILTER (WHERE w.heartbeat_at < clock_timestamp() - %s::interval) OVER ()
FROM pgqueue_worker AS w
ORDER BY w.heartbeat_at < clock_timestamp() - %s::interval DESC, w.paused_at IS NULL, w.name
LIMIT %s
"""
SCHEDULES = """
SELECT s.id, s.name, s.cron, s.every,
    CASE WHEN isfinite(s.next_fire_at) THEN extract(epoch FROM s.next_fire_at - clock_timestamp())::float END,
    CASE WHEN isfinite(s.last_fired_at) THEN extract(epoch FROM clock_timestamp() - s.last_fired_at)::float END,
    s.last_error <> '', count(*) OVER (), count(*) FILTER (WHERE s.last_error <> '') OVER ()
FROM pgqueue_schedule AS s
WHERE s.enabled AND s.removed_at IS NULL
ORDER BY s.last_error <> '' DESC, s.next_fire_at NULLS LAST, s.name
LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Hold the ages of the figures. ``now``: by the clock of the database. ``measured_at``, ``counted_at``: when
    settled messages and waiting ones were last counted; None: never. ``any_dead``: a dead letter was not redriven."""

    now: datetime
    measured_at: datetime | None
    counted_at: datetime | None
    any_dead: bool

    @property
    def is_stale(self) -> bool:
        """Return whether four measurements are missing."""
        longest = max(4 * settings.MEASURE_INTERVAL, timedelta(seconds=30))
        return self.measured_at is None or self.now - self.measured_at > longest


@dataclass(frozen=True, slots=True)
class BacklogCounts(LiveCounts):
    """Hold the numbers of messages by state, as measured. ``dead``: not redriven. ``oldest_at``: since when the oldest
    is ready."""

    dead: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Hold the present figures of one queue. ``workers``: those with a recent heartbeat that are not stopping."""

    name: str
    backlog: BacklogCounts
    paused: bool
    pause_reason: str
    workers: int


@dataclass(frozen=True, slots=True)
class ChannelFigures:
    """Hold the present figures and the limits of one channel."""

    id: int
    queue: str
    name: str
    paused: bool
    released: bool
    max_concurrency: int | None
    max_size: int | None
    release_interval: timedelta | None
    backlog: BacklogCounts


@dataclass(frozen=True, slots=True)
class LimitedChannels:
    """Hold the channel with the longest line among ``count`` that wait for their max_concurrency."""

    queue: str
    name: str
    id: int
    leased: int
    max_concurrency: int
    ready: int
    count: int


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Hold one worker. ``running``: id and seconds of the longest running messages; ``silent``: seconds since the last
    heartbeat."""

    name: str
    state: str
    paused: bool
    queues: list[str]
    concurrency: int
    running: list[tuple[int, float]]
    silent: float
    total: int
    total_silent: int

    @property
    def is_lost(self) -> bool:
        return bool(self.silent > settings.LEASE.total_seconds())


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """Hold one schedule. ``next``: seconds until it fires; ``last``: seconds since it fired."""

    id: int
    name: str
    cron: str | None
    every: timedelta | None
    next: float | None
    last: float | None
    failing: bool
    total: int
    total_failing: int


def read_freshness(*, using: str) -> Freshness:
    """Return the database's clock, when maintenance last measured and counted, and whether dead letters wait."""
    return Freshness(*call(using, MEASURED)[0])


def queue_figures(names: list[str], *, using: str) -> list[QueueFigures]:
    """Return the figures of those of the named queues that have the longest lines, MOST_QUEUES at most, by name."""
    found = [
        QueueFigures(name, BacklogCounts(*backlog), paused, reason, workers)
        for name, *backlog, paused, reason, workers in call(using, QUEUE_FIGURES, (settings.LEASE, names, MOST_QUEUES))
    ]
    return sorted(found, key=lambda queue: queue.name)


def died(channels: Sequence[Key], *, using: str) -> dict[Key, tuple[int, int]]:
    """Return the dead letters of the last hour and day by queue, and by those channels.

    Only the newest MOST_DEAD are read, without those that were redriven, or that an operator has discarded.
    """
    asked = {"queues": [key[0] for key in channels], "channels": [key[1] for key in channels], "most": MOST_DEAD}
    return {(queue, channel): (hour, day) for queue, channel, hour, day in call(using, DIED, asked)}


def channel_figures(
    *, queue: str | None, name: str, order: str, page: int, now: datetime, using: str
) -> tuple[list[ChannelFigures], bool]:
    """Return a page of channels, and whether there are more."""
    sql = CHANNELS.format(join=JOINS.get(order, ""), order=ORDERS[order])
    asked = {
        "queue": queue,
        "name": name,
        "limit": MOST_CHANNELS + 1,
        "offset": page * MOST_CHANNELS,
        "hour_ago": floored(now, 10) - timedelta(hours=1),
        "minutes_ago": floored(now, 10) - timedelta(minutes=10),
    }
    rows = call(using, sql, asked)
    found = [
        ChannelFigures(number, queue, name, paused, released, at_once, size, interval, BacklogCounts(*backlog))
        for number, queue, name, paused, released, at_once, size, interval, *backlog in rows
    ]
    return found[:MOST_CHANNELS], len(found) > MOST_CHANNELS


def limited_channels(queue: str | None, *, using: str) -> LimitedChannels | None:
    """Return the channel with the longest line among those that wait for their max_concurrency; None if none does.

    ``queue`` None means all queues.
    """
    rows = call(using, LIMITED, {"queue": queue})
    return LimitedChannels(*rows[0]) if rows else None


def worker_figures(*, using: str) -> list[WorkerFigures]:
    """Return workers, the silent ones first."""
    return [
        WorkerFigures(name, state, paused, queue_names_in(queues), concurrency, running_messages(running), *rest)
        for name, state, paused, queues, concurrency, running, *rest in call(
            using, WORKERS, (settings.LEASE, settings.LEASE, MOST_WORKERS)
        )
    ]


def queue_names_in(queues: Any) -> list[str]:
    """Return the names in a worker's column ``queues``.

    Foreign JSON becomes one name, so that the page is shown anyway.
    """
    found = from_json(queues)
    return [str(queue) for queue in found] if isinstance(found, list) else [str(found)]


def running_messages(running: Any) -> list[tuple[int, float]]:
    """Return id and seconds of running messages. A worker's row may hold anything, so entries of another shape are left
    out."""
    found = from_json(running)
    entries = found if isinstance(found, list) else []
    return [
        (entry["id"], float(entry["seconds"]))
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("id"), int)
        and isinstance(entry.get("seconds"), int | float)
    ]


def schedule_figures(*, using: str) -> list[ScheduleFigures]:
    """Return schedules: the failing ones first, then by their next time."""
    return [ScheduleFigures(*row) for row in call(using, SCHEDULES, (MOST_SCHEDULES,))]
