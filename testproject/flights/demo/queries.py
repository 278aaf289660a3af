"""The questions that the report asks, in SQL: archive and dead letters know when a message was leased and settled."""

SETTLED = """
WITH settled AS (
    SELECT channel, created_at, leased_at, coalesce(started_at, leased_at) AS began_at, archived_at AS settled_at,
        false AS dead
    FROM pgqueue_archived_message WHERE queue = %(queue)s AND outcome = 'completed'
    UNION ALL
    SELECT channel, created_at, leased_at, coalesce(started_at, leased_at), dead_at, true
    FROM pgqueue_dead_letter WHERE queue = %(queue)s
)"""

# at_once: a lease that begins counts 1, one that ends -1; the running sum is how many there are.
CARRIERS = f"""
{SETTLED},
events AS (
    SELECT channel, leased_at AS happened_at, 1 AS change FROM settled
    UNION ALL
    SELECT channel, settled_at, -1 FROM settled
),
at_once AS (
    SELECT channel, sum(change) OVER (PARTITION BY channel ORDER BY happened_at, change ROWS UNBOUNDED PRECEDING) AS n
    FROM events
),
most AS (
    SELECT channel, max(n) AS n FROM at_once GROUP BY channel
)
SELECT s.channel,
    count(*) FILTER (WHERE NOT s.dead),
    count(*) FILTER (WHERE s.dead),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY s.began_at - s.created_at),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY s.began_at - s.created_at),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY s.settled_at - s.began_at),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY s.settled_at - s.began_at),
    max(s.settled_at) - min(s.leased_at),
    min(m.n)
FROM settled AS s
JOIN most AS m ON m.channel = s.channel
GROUP BY s.channel
ORDER BY s.channel
"""  # noqa: S608

SPAN = f"{SETTLED} SELECT count(*), max(settled_at) - min(leased_at) FROM settled WHERE channel <> %(paused)s"  # noqa: S608

BUSIEST_SECOND = f"""
{SETTLED}
SELECT coalesce(max(n.messages), 0)
FROM (
    SELECT count(*) OVER (
        ORDER BY leased_at RANGE BETWEEN CURRENT ROW AND interval '0.999999 seconds' FOLLOWING) AS messages
    FROM settled WHERE channel = %(channel)s
) AS n
"""  # noqa: S608

# Counted while both have a backlog: until the last lease of the one that ends first.
TURNS = f"""
{SETTLED},
last AS (
    SELECT max(leased_at) AS leased_at FROM settled WHERE channel IN (%(channel)s, %(other)s) GROUP BY channel
)
SELECT count(*) FILTER (WHERE channel = %(channel)s), count(*) FILTER (WHERE channel = %(other)s)
FROM settled WHERE leased_at < (SELECT min(leased_at) FROM last)
"""  # noqa: S608

RETRIES = """
SELECT count(*),
    count(*) FILTER (WHERE attempts > 1),
    min((errors -> 0 ->> 'type') || ': ' || (errors -> 0 ->> 'message'))
FROM pgqueue_archived_message
WHERE queue = %(office)s AND channel = %(channel)s AND outcome = 'completed'
"""

TOWER = """
SELECT count(*), coalesce(max((result ->> 'departed')::bigint), 0), count(*) - count(DISTINCT headers ->> 'tick_at')
FROM pgqueue_archived_message
WHERE queue = %(office)s AND channel = %(channel)s AND outcome = 'completed'
"""

# Both by channel and day, durations in microseconds: the metrics of the lake, and the same from the archive itself.
FIGURES = (
    "completed", "dead", "attempts",
    "wait p50", "wait p95", "wait p99", "run p50", "run p95", "run p99", "total p50", "total p95", "total p99",
)  # fmt: skip

METRICS = """
WITH settled AS (
    SELECT queue, channel, attempts, created_at, dequeue_at, coalesce(started_at, leased_at) AS began_at,
        archived_at AS settled_at, false AS dead
    FROM pgqueue_archived_message WHERE queue = ANY (%(queues)s)
    UNION ALL
    SELECT queue, channel, attempts, created_at, dequeue_at, coalesce(started_at, leased_at), dead_at, true
    FROM pgqueue_dead_letter WHERE queue = ANY (%(queues)s)
),
percentiles AS (
    SELECT queue || '/' || channel || ' on ' || (settled_at AT TIME ZONE 'UTC')::date AS key,
        count(*) FILTER (WHERE NOT dead) AS completed,
        count(*) FILTER (WHERE dead) AS dead,
        sum(attempts) AS attempts,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY began_at - dequeue_at) AS wait,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY settled_at - began_at) AS run,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (
            ORDER BY CASE WHEN began_at IS NOT NULL THEN settled_at - created_at END) AS total
    FROM settled
    GROUP BY key
)
SELECT key, completed, dead, attempts,
    (extract(epoch FROM wait[1]) * 1000000)::bigint,
    (extract(epoch FROM wait[2]) * 1000000)::bigint,
    (extract(epoch FROM wait[3]) * 1000000)::bigint,
    (extract(epoch FROM run[1]) * 1000000)::bigint,
    (extract(epoch FROM run[2]) * 1000000)::bigint,
    (extract(epoch FROM run[3]) * 1000000)::bigint,
    (extract(epoch FROM total[1]) * 1000000)::bigint,
    (extract(epoch FROM total[2]) * 1000000)::bigint,
    (extract(epoch FROM total[3]) * 1000000)::bigint
FROM percentiles
"""

ROLLED_UP = """
SELECT queue || '/' || channel || ' on ' || (bucket_at AT TIME ZONE 'UTC')::date,
    completed, dead, attempts,
    round(wait_p50_seconds * 1000000)::bigint,
    round(wait_p95_seconds * 1000000)::bigint,
    round(wait_p99_seconds * 1000000)::bigint,
    round(run_p50_seconds * 1000000)::bigint,
    round(run_p95_seconds * 1000000)::bigint,
    round(run_p99_seconds * 1000000)::bigint,
    round(total_p50_seconds * 1000000)::bigint,
    round(total_p95_seconds * 1000000)::bigint,
    round(total_p99_seconds * 1000000)::bigint
FROM pgqueue_queue_metric
WHERE grain = 'day' AND level = 'channel' AND queue = ANY (%(queues)s)
"""

QUEUES = """
SELECT queue, completed, dead, retries,
    make_interval(secs => wait_p50_seconds),
    make_interval(secs => wait_p95_seconds),
    make_interval(secs => wait_p99_seconds),
    make_interval(secs => total_p50_seconds),
    make_interval(secs => total_p95_seconds),
    make_interval(secs => total_p99_seconds)
FROM pgqueue_queue_metric
WHERE grain = 'day' AND level = 'queue' AND completed + dead > 0 AND queue = ANY (%(queues)s)
ORDER BY queue, bucket_at
"""
