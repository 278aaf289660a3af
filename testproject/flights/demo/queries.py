"""The questions that the report asks, in SQL: archive and dead letters know when a message was leased and settled."""

SETTLED = """
WITH settled AS (
    SELECT channel, created_at, leased_at, archived_at AS settled_at, false AS dead
    FROM pgqueue_archived_message WHERE queue = %(queue)s AND outcome = 'completed'
    UNION ALL
    SELECT channel, created_at, leased_at, dead_at, true FROM pgqueue_dead_letter WHERE queue = %(queue)s
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
    percentile_disc(0.5) WITHIN GROUP (ORDER BY s.leased_at - s.created_at),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY s.leased_at - s.created_at),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY s.settled_at - s.leased_at),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY s.settled_at - s.leased_at),
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

# Counted while both have a backlog: until the last lease of whoever is through first.
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
