"""Read the messages that were settled in the last hour and day from pgqueue_activity: sums, percentiles, courses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django_pgqueue.sql.call import call

Key = tuple[str, str | None]
"""A queue and a channel; None: the whole queue."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MOST_LEASED = 10_000

OF_QUEUE = "a.channel IS NULL AND a.handler IS NULL"
# {same}: NULL is not equal to NULL, and only an equality can use the index. The rest is grouped by numbers.
PART = """
part AS MATERIALIZED (
    SELECT k.key, s.span, a.bucket_at, a.completed, a.cancelled, a.dead, a.retries, a.waits, a.runs
    FROM unnest(%(queues)s::text[], %(channels)s::text[]) WITH ORDINALITY AS k (queue, channel, key)
    CROSS JOIN (VALUES (0, %(fine)s, %(hour_ago)s), (1, %(coarse)s, %(day_ago)s)) AS s (span, minutes, since)
    JOIN pgqueue_activity AS a
        ON a.queue = k.queue AND {same} AND a.minutes = s.minutes AND a.bucket_at >= s.since
)
"""
OF_HANDLERS = """
part AS MATERIALIZED (
    SELECT a.handler AS key, 0 AS span, a.bucket_at, a.completed, a.cancelled, a.dead, a.retries, a.waits, a.runs
    FROM pgqueue_activity AS a
    WHERE a.handler IS NOT NULL AND a.minutes = 10 AND a.bucket_at >= %(hour_ago)s
        AND (%(queue)s::text IS NULL OR a.queue = %(queue)s::text)
)
"""
# Histograms are added position by position.
SPANS = """
WITH {part},
summed AS (
    SELECT p.key, p.span, sum(p.completed)::bigint AS completed, sum(p.cancelled)::bigint AS cancelled,
        sum(p.dead)::bigint AS dead, sum(p.retries)::bigint AS retries,
        array_agg(p.bucket_at) AS times, array_agg((p.completed + p.cancelled + p.dead)::bigint) AS settled
    FROM part AS p
    GROUP BY p.key, p.span
),
placed AS (
    SELECT p.key, p.span, u.place, coalesce(sum(u.waits), 0) AS waits, coalesce(sum(u.runs), 0) AS runs
    FROM part AS p
    CROSS JOIN LATERAL unnest(p.waits, p.runs) WITH ORDINALITY AS u (waits, runs, place)
    GROUP BY p.key, p.span, u.place
),
counts AS (
    SELECT p.key, p.span, array_agg(p.waits ORDER BY p.place) AS waits, array_agg(p.runs ORDER BY p.place) AS runs
    FROM placed AS p
    GROUP BY p.key, p.span
)
SELECT s.key, s.span, s.times, s.settled, s.completed, s.cancelled, s.dead, s.retries,
    pgqueue_histogram_percentile(c.waits, 0.5), pgqueue_histogram_percentile(c.waits, 0.95),
    pgqueue_histogram_percentile(c.runs, 0.5), pgqueue_histogram_percentile(c.runs, 0.95)
FROM summed AS s
LEFT JOIN counts AS c ON c.key = s.key AND c.span = s.span
"""
# Few messages are leased, and they have an index.
HANDLERS = """
SELECT coalesce(s.key, l.handler)::text, coalesce(l.leased, 0), s.*
FROM ({settled}) AS s
FULL JOIN (
    SELECT m.handler COLLATE "C" AS handler, count(*) AS leased
    FROM (
        SELECT m.handler, m.channel_id FROM pgqueue_message AS m WHERE m.status = 2 LIMIT %(most)s
    ) AS m
    JOIN pgqueue_channel AS c ON c.id = m.channel_id
    WHERE %(queue)s::text IS NULL OR c.queue = %(queue)s::text
    GROUP BY 1
) AS l ON l.handler = s.key
"""
TIMELINE = """
WITH part AS MATERIALIZED (
    SELECT a.*
    FROM unnest(%(minutes)s::integer[], %(since)s::timestamptz[]) AS l (minutes, since)
    JOIN pgqueue_activity AS a ON a.minutes = l.minutes AND a.bucket_at >= l.since
    WHERE {same} AND (%(queue)s::text IS NULL OR a.queue = %(queue)s::text)
),
placed AS (
    SELECT p.minutes, p.bucket_at, u.place, coalesce(sum(u.waits), 0) AS waits
    FROM part AS p
    CROSS JOIN LATERAL unnest(p.waits) WITH ORDINALITY AS u (waits, place)
    GROUP BY p.minutes, p.bucket_at, u.place
),
counts AS (
    SELECT p.minutes, p.bucket_at, array_agg(p.waits ORDER BY p.place) AS waits
    FROM placed AS p
    GROUP BY p.minutes, p.bucket_at
)
SELECT s.minutes, s.bucket_at, s.completed, s.cancelled, s.dead, s.retries,
    pgqueue_histogram_percentile(c.waits, 0.5), pgqueue_histogram_percentile(c.waits, 0.95)
FROM (
    SELECT p.minutes, p.bucket_at, sum(p.completed)::bigint AS completed, sum(p.cancelled)::bigint AS cancelled,
        sum(p.dead)::bigint AS dead, sum(p.retries)::bigint AS retries
    FROM part AS p
    GROUP BY p.minutes, p.bucket_at
) AS s
LEFT JOIN counts AS c ON c.minutes = s.minutes AND c.bucket_at = s.bucket_at
"""


@dataclass(frozen=True, slots=True)
class SettledFigures:
    """Hold the messages that were settled in a time; percentiles in seconds, None if nothing was settled."""

    completed: int = 0
    cancelled: int = 0
    dead: int = 0
    retries: int = 0
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None

    @property
    def settled(self) -> int:
        return self.completed + self.cancelled + self.dead


@dataclass(frozen=True, slots=True)
class Spans:
    """Hold an hour and a day. ``course``: messages settled in each bucket, the oldest first; the last is the present
    one."""

    hour: SettledFigures = SettledFigures()
    day: SettledFigures = SettledFigures()
    course: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """Hold the buckets of all queues together, of one queue, or of one channel. ``rows``: by bucket, as in Span without
    the times of running."""

    times: list[datetime]
    minutes: int
    rows: dict[datetime, Sequence[float | None]]

    def columns(self, missing: float | None = None) -> list[list[float | None]]:
        """Return the six columns, each with a value for each bucket; ``missing`` for a bucket without a row."""
        return [[self.rows[time][place] if time in self.rows else missing for time in self.times] for place in range(6)]


def floored(moment: datetime, minutes: int) -> datetime:
    """Return the beginning of the bucket that holds this moment."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (moment - midnight) // timedelta(minutes=minutes) * timedelta(minutes=minutes)


def buckets(now: datetime, minutes: int, length: timedelta) -> list[datetime]:
    """Return the buckets of the last ``length``, and the present one, which is incomplete: a failure of now is seen."""
    first, count = floored(now, minutes) - length, int(length.total_seconds()) // 60 // minutes
    return [first + place * timedelta(minutes=minutes) for place in range(count + 1)]


def spans(keys: Sequence[Key], now: datetime, *, using: str) -> dict[Key, Spans]:
    """Return the sums of queues, or of channels, but not of both. It takes one query, however many keys there are."""
    if not keys:
        return {}
    of_queues = keys[0][1] is None
    fine, coarse = (1, 10) if of_queues else (10, 60)
    part = PART.format(same=OF_QUEUE if of_queues else "a.channel = k.channel")
    asked = {
        "queues": [queue for queue, _ in keys],
        "channels": [channel for _, channel in keys],
        "fine": fine,
        "coarse": coarse,
        "hour_ago": floored(now, fine) - HOUR,
        "day_ago": floored(now, coarse) - DAY,
    }
    sums: dict[Key, dict[str, SettledFigures]] = defaultdict(dict)
    courses: dict[Key, tuple[int, ...]] = {}
    times = buckets(now, fine, HOUR) if of_queues else buckets(now, coarse, DAY)
    for key, span, begun_at, settled, *figures in call(using, SPANS.format(part=part), asked):
        sums[keys[key - 1]][("hour", "day")[span]] = SettledFigures(*figures)
        if span == (0 if of_queues else 1):
            counts = dict(zip(begun_at, settled, strict=True))
            courses[keys[key - 1]] = tuple(counts.get(time, 0) for time in times)
    return {key: Spans(**found, course=courses.get(key, ())) for key, found in sums.items()}


def of_handlers(queue: str | None, now: datetime, *, using: str) -> dict[str, tuple[int, SettledFigures]]:
    """Return how many messages of each handler are leased, and what it has settled in the last 60 to 70 minutes.

    ``queue`` None means all queues. At most MOST_LEASED messages are counted.
    """
    asked = {"queue": queue, "hour_ago": floored(now, 10) - HOUR, "most": MOST_LEASED}
    found = {}
    for handler, leased, key, _span, _times, _settled, *figures in call(
        using, HANDLERS.format(settled=SPANS.format(part=OF_HANDLERS)), asked
    ):
        found[handler] = (leased, SettledFigures(*figures) if key else SettledFigures())
    return found


def timelines(
    queue: str | None, now: datetime, *spans: tuple[int, timedelta], channel: str | None = None, using: str
) -> list[Timeline]:
    """Return the buckets of each span, which is the minutes of a bucket and its length, in one query.

    ``queue`` None means all queues. ``channel``: only those of this channel of the queue.
    """
    found = [Timeline(buckets(now, minutes, length), minutes, {}) for minutes, length in spans]
    sql = TIMELINE.format(same=OF_QUEUE if channel is None else "a.channel = %(channel)s::text")
    asked = {"minutes": [line.minutes for line in found], "since": [line.times[0] for line in found]}
    for minutes, bucket_at, *figures in call(using, sql, {**asked, "queue": queue, "channel": channel}):
        next(line for line in found if line.minutes == minutes).rows[bucket_at] = tuple(figures)
    return found
