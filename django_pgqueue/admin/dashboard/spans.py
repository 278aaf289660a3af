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
# Histograms are added position by position.
SPANS = """
WITH {part},
summed AS (
    SELECT p.key, p.span, sum(p.completed)::bigint AS completed, sum(p.cancelled)::bigint AS cancelled,
        sum(p.dead)::bigint AS dead, sum(p.retries)::bigint AS retries
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
SELECT s.key, s.span, s.completed, s.cancelled, s.dead, s.retries,
    pgqueue_histogram_percentile(c.waits, 0.5), pgqueue_histogram_percentile(c.waits, 0.95),
    pgqueue_histogram_percentile(c.runs, 0.5), pgqueue_histogram_percentile(c.runs, 0.95)
FROM summed AS s
LEFT JOIN counts AS c ON c.key = s.key AND c.span = s.span
"""
COURSES = """
WITH {part}
SELECT p.key, p.bucket_at, (p.completed + p.cancelled + p.dead)::bigint FROM part AS p WHERE p.span = %(span)s
"""
TIMELINE = """
WITH part AS MATERIALIZED (
    SELECT a.* FROM pgqueue_activity AS a
    WHERE a.minutes = %(minutes)s AND a.bucket_at >= %(since)s AND {same}
        AND (%(queue)s::text IS NULL OR a.queue = %(queue)s::text)
),
placed AS (
    SELECT p.bucket_at, u.place, coalesce(sum(u.waits), 0) AS waits
    FROM part AS p
    CROSS JOIN LATERAL unnest(p.waits) WITH ORDINALITY AS u (waits, place)
    GROUP BY p.bucket_at, u.place
),
counts AS (
    SELECT p.bucket_at, array_agg(p.waits ORDER BY p.place) AS waits FROM placed AS p GROUP BY p.bucket_at
)
SELECT s.bucket_at, s.completed, s.cancelled, s.dead, s.retries,
    pgqueue_histogram_percentile(c.waits, 0.5), pgqueue_histogram_percentile(c.waits, 0.95)
FROM (
    SELECT p.bucket_at, sum(p.completed)::bigint AS completed, sum(p.cancelled)::bigint AS cancelled,
        sum(p.dead)::bigint AS dead, sum(p.retries)::bigint AS retries
    FROM part AS p
    GROUP BY p.bucket_at
) AS s
LEFT JOIN counts AS c ON c.bucket_at = s.bucket_at
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
    """Hold an hour and a day. ``course``: messages settled in each bucket, the oldest first, without the present
    bucket."""

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
    """Return the buckets that are over; the present one is incomplete, and could not be compared."""
    first = floored(now, minutes) - length
    return [first + place * timedelta(minutes=minutes) for place in range(int(length.total_seconds()) // 60 // minutes)]


def spans(keys: Sequence[Key], now: datetime, *, using: str) -> dict[Key, Spans]:
    """Return the sums of queues, or of channels, but not of both. It takes two queries, however many keys there are."""
    if not keys:
        return {}
    of_queues = keys[0][1] is None
    fine, coarse = (1, 10) if of_queues else (10, 60)
    part = PART.format(same="a.channel IS NULL" if of_queues else "a.channel = k.channel")
    asked = {
        "queues": [queue for queue, _ in keys],
        "channels": [channel for _, channel in keys],
        "fine": fine,
        "coarse": coarse,
        "hour_ago": floored(now, fine) - HOUR,
        "day_ago": floored(now, coarse) - DAY,
        "span": 0 if of_queues else 1,
    }
    sums: dict[Key, dict[str, SettledFigures]] = defaultdict(dict)
    for key, span, *figures in call(using, SPANS.format(part=part), asked):
        sums[keys[key - 1]][("hour", "day")[span]] = SettledFigures(*figures)
    courses: dict[Key, dict[datetime, int]] = defaultdict(dict)
    for key, bucket_at, settled in call(using, COURSES.format(part=part), asked):
        courses[keys[key - 1]][bucket_at] = settled
    times = buckets(now, fine, HOUR) if of_queues else buckets(now, coarse, DAY)
    return {
        key: Spans(**sums[key], course=tuple(courses[key].get(time, 0) for time in times))
        for key in keys
        if key in sums
    }


def timeline(
    queue: str | None, now: datetime, minutes: int, length: timedelta, *, channel: str | None = None, using: str
) -> Timeline:
    """Return the buckets of the last ``length``. ``channel``: only those of this channel of the queue."""
    times = buckets(now, minutes, length)
    sql = TIMELINE.format(same="a.channel IS NULL" if channel is None else "a.channel = %(channel)s::text")
    rows = call(using, sql, {"minutes": minutes, "since": times[0], "queue": queue, "channel": channel})
    return Timeline(times, minutes, {bucket_at: tuple(figures) for bucket_at, *figures in rows})
