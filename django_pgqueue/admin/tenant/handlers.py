"""Sum up by handler what the archive has of one channel. The archive has no index by channel, so as much of the last
day is read as the figures of the dashboard promise to be a bounded number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django_pgqueue.admin.dashboard.spans import DAY, HOUR, floored
from django_pgqueue.admin.tenant.reads import archives_nothing
from django_pgqueue.models import Channel
from django_pgqueue.sql.call import call

MOST_ROWS = 50_000
"""The most archived messages, of all channels, that the page reads."""
MOST_LETTERS = 10_000
MOST_HANDLERS = 20
# Minutes are kept for two hours, ten minutes for a day.
SETTLED = """
SELECT a.bucket_at, sum(a.completed + a.cancelled + a.dead)::bigint
FROM pgqueue_activity AS a
WHERE a.channel IS NULL AND a.handler IS NULL AND (
    (a.minutes = 1 AND a.bucket_at >= %(hour_ago)s)
    OR (a.minutes = 10 AND a.bucket_at >= %(day_ago)s AND a.bucket_at < %(hour_ago)s)
)
GROUP BY a.bucket_at
ORDER BY a.bucket_at DESC
"""
# The index of the archive finds ranges of blocks; a scan of whole partitions would read all days.
NO_SCAN = "SELECT set_config('enable_seqscan', 'off', true)"
# Infinite times make infinite durations, which Python does not have: least() bounds them, and NaN, too.
HANDLERS = """
WITH seen AS MATERIALIZED (
    SELECT a.queue, a.channel, a.handler, a.outcome, a.attempts,
        least(date_part('epoch', coalesce(a.started_at, a.leased_at)) - date_part('epoch', a.dequeue_at), 1e9) AS wait,
        least(date_part('epoch', a.archived_at) - date_part('epoch', coalesce(a.started_at, a.leased_at)), 1e9) AS run
    FROM pgqueue_archived_message AS a
    WHERE a.archived_at >= %(since)s
    LIMIT %(most)s
),
own AS (
    SELECT s.handler, count(*) AS done, sum(greatest(s.attempts - 1, 0)) AS retries,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY s.wait) FILTER (WHERE s.wait > -1e9) AS wait_p50,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY s.wait) FILTER (WHERE s.wait > -1e9) AS wait_p95,
        avg(s.run) FILTER (WHERE s.run > -1e9) AS run_mean,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY s.run) FILTER (WHERE s.run > -1e9) AS run_p50,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY s.run) FILTER (WHERE s.run > -1e9) AS run_p95
    FROM seen AS s
    WHERE s.queue = %(queue)s AND s.channel = %(channel)s
    GROUP BY s.handler
),
dead AS (
    SELECT l.handler, count(*) AS dead, sum(greatest(l.attempts - 1, 0)) AS retries
    FROM (
        SELECT d.handler, d.attempts, d.dead_at FROM pgqueue_dead_letter AS d
        WHERE d.queue = %(queue)s AND d.channel = %(channel)s AND d.redriven_at IS NULL
        LIMIT %(letters)s
    ) AS l
    WHERE l.dead_at >= %(since)s
    GROUP BY l.handler
)
SELECT coalesce(o.handler, d.handler)::text, coalesce(o.done, 0), coalesce(d.dead, 0),
    (coalesce(o.retries, 0) + coalesce(d.retries, 0))::bigint,
    o.wait_p50, o.wait_p95, o.run_mean, o.run_p50, o.run_p95, count(*) OVER ()
FROM own AS o
FULL JOIN dead AS d ON d.handler = o.handler
ORDER BY coalesce(o.done, 0) + coalesce(d.dead, 0) DESC, 1
LIMIT %(shown)s
"""


@dataclass(frozen=True, slots=True)
class HandlerFigures:
    """Hold one handler. ``retries``: failed attempts before the last one. Durations in seconds; None if no message was
    delivered."""

    name: str
    done: int
    dead: int
    retries: int
    wait_p50: float | None
    wait_p95: float | None
    run_mean: float | None
    run_p50: float | None
    run_p95: float | None


@dataclass(frozen=True, slots=True)
class Handlers:
    """Hold the handlers with the most messages. ``since``: the messages settled before are not counted. ``whole``: that
    is the whole day. ``total``: how many handlers there are. ``unarchived``: the archive keeps nothing of the channel,
    so only dead letters are counted."""

    rows: list[HandlerFigures]
    since: datetime
    whole: bool
    total: int
    unarchived: bool


def handlers(channel: Channel, clock: datetime, *, using: str) -> Handlers:
    """Return the handlers whose messages were settled within the last day, or within as much of it as may be read."""
    hour_ago, day_ago = floored(clock, 10) - HOUR, floored(clock, 10) - DAY
    settled = call(using, SETTLED, {"hour_ago": hour_ago, "day_ago": day_ago})
    since = window(settled, clock - DAY)
    unarchived = archives_nothing(channel, using=using)
    call(using, NO_SCAN)
    asked = {
        "queue": channel.queue,
        "channel": channel.name,
        "since": since,
        "most": 2 * MOST_ROWS,
        "letters": MOST_LETTERS,
        "shown": MOST_HANDLERS,
    }
    found = call(using, HANDLERS, asked)
    rows = [HandlerFigures(*row[:-1]) for row in found]
    return Handlers(rows, since, since <= clock - DAY, found[0][-1] if found else 0, unarchived)


def window(settled: Sequence[tuple[datetime, int]], day_ago: datetime) -> datetime:
    """Return the time since when about MOST_ROWS messages were settled, at most a day ago.

    ``settled``: the beginnings of buckets with the messages of all channels, the newest first.
    """
    total, since = 0, settled[0][0] if settled else day_ago
    for bucket_at, messages in settled:
        total += messages
        if total > MOST_ROWS:
            return max(since, day_ago)
        since = bucket_at
    return day_ago
