-- Reports the use of each limit that several channels share, and the messages that it holds up: shared limits, and the
-- limits of whole queues. It is for monitors: p_most bounds the messages that are counted for each limit.
-- Breakers are left out (pgqueue_breakers), and a limit that the caller may not see in full: see pgqueue_limit_room. A
-- limit for each channel is one row, without places, cost and tokens; why is that of the channel that has waited longest.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_health(p_most integer DEFAULT 10000)
RETURNS SETOF pgqueue_limit_use
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
-- Walks the index from one limit, channel and priority to the next, reading the first message of each.
WITH RECURSIVE head AS (
    (
        SELECT m.waits_for, m.channel_id, -m.priority AS rank, m.dequeue_at, m.cost, 1 AS place
        FROM pgqueue_message AS m
        WHERE m.waits_for >= 0
        ORDER BY m.waits_for, m.channel_id, -m.priority, m.dequeue_at, m.id
        LIMIT 1
    )
    UNION ALL
    SELECT n.waits_for, n.channel_id, n.rank, n.dequeue_at, n.cost, h.place + 1
    FROM head AS h
    CROSS JOIN LATERAL (
        SELECT m.waits_for, m.channel_id, -m.priority AS rank, m.dequeue_at, m.cost
        FROM pgqueue_message AS m
        WHERE m.waits_for >= 0 AND (m.waits_for, m.channel_id, -m.priority) > (h.waits_for, h.channel_id, h.rank)
        ORDER BY m.waits_for, m.channel_id, -m.priority, m.dequeue_at, m.id
        LIMIT 1
    ) AS n
    WHERE h.place < p_most
),
-- Finds the message of each row that has waited longest, and the limit that it is a row of.
waiting AS MATERIALIZED (
    SELECT g.*, coalesce((
        SELECT c.parent_id FROM pgqueue_limit AS c WHERE c.id = g.waits_for AND c.breaker_failures IS NULL
    ), g.waits_for) AS limit_id
    FROM (
        SELECT h.waits_for, min(h.dequeue_at) AS oldest_at, (array_agg(h.cost ORDER BY h.dequeue_at))[1] AS cost,
            max(max(h.place)) OVER () < p_most AS complete
        FROM head AS h
        GROUP BY h.waits_for
    ) AS g
),
first AS MATERIALIZED (
    SELECT DISTINCT ON (w.limit_id) w.limit_id, w.waits_for, w.oldest_at, w.cost, w.complete
    FROM waiting AS w
    ORDER BY w.limit_id, w.oldest_at
),
-- Reads each queue that has a limit, its leases, counted as pgqueue_queue_allowance counts them, and its bucket.
used AS MATERIALIZED (
    SELECT q.name, q.max_concurrency, l.places,
        CASE
            WHEN q.paused_at IS NOT NULL THEN 'paused'
            WHEN l.places >= q.max_concurrency THEN 'full'
            WHEN b.next_at > n.now + (q.release_burst - coalesce(g.wanted, 1)) * q.release_interval THEN 'rate'
        END AS why,
        q.release_burst - extract(epoch FROM b.next_at - n.now) / extract(epoch FROM q.release_interval) AS tokens
    FROM pgqueue_queue AS q
    CROSS JOIN (SELECT clock_timestamp() AS now OFFSET 0) AS n
    LEFT JOIN LATERAL (
        SELECT o.* FROM pgqueue_gate AS o WHERE o.queue = q.name ORDER BY o.seq DESC LIMIT 1
    ) AS g ON true
    CROSS JOIN LATERAL (
        -- A gate that was never used has no time, and one from the future means that the clock was set back.
        SELECT greatest(n.now, pgqueue_bucket_time(
            coalesce(g.next_at, '-infinity'), g.debt, q.release_interval, q.release_burst, n.now)
            + coalesce(pgqueue_token_time(q.release_interval, (
                SELECT sum(s.cost) FROM pgqueue_spent AS s WHERE s.queue = q.name)), '0')) AS next_at
    ) AS b
    CROSS JOIN LATERAL (
        SELECT count(*) AS places FROM pgqueue_queue_leases(
            q.name, CASE WHEN g.seen_at IS NOT DISTINCT FROM q.changed_at THEN g.held END)
    ) AS l
    WHERE q.max_concurrency IS NOT NULL OR q.release_interval IS NOT NULL
),
-- Summarises the ready messages of each of these queues that has no room.
held AS MATERIALIZED (
    SELECT w.queue, min(w.oldest_at) AS oldest_at, array_agg(w.channel_id) AS channel_ids,
        bool_and(w.complete) AS complete
    FROM pgqueue_waiting(p_most) AS w
    WHERE EXISTS (SELECT FROM used AS u WHERE u.name = w.queue AND u.why IS NOT NULL)
    GROUP BY w.queue
)
SELECT 'shared', l.name::text, CASE WHEN l.per IS NULL THEN r.used END, l.max_concurrency::bigint,
    CASE WHEN l.per IS NULL THEN r.used_cost END, l.max_cost::bigint, CASE WHEN l.per IS NULL THEN r.tokens END,
    least(w.messages, p_most)::integer,
    CASE WHEN f.oldest_at IS NOT NULL THEN greatest('0', clock_timestamp() - pgqueue_clamp_time(f.oldest_at)) END,
    CASE
        WHEN l.paused_at IS NOT NULL THEN 'paused'
        WHEN r.places < 1 OR r.cost < least(coalesce(f.cost, 1), l.max_cost) THEN 'full'
        WHEN r.tokens < least(coalesce(f.cost, 1), l.release_burst) THEN 'rate'
    END,
    w.messages <= p_most AND coalesce(f.complete, (SELECT bool_and(a.complete) FROM first AS a), true)
FROM pgqueue_limit AS l
LEFT JOIN first AS f ON f.limit_id = l.id
CROSS JOIN LATERAL (
    SELECT count(*) AS messages
    FROM (
        SELECT
        FROM (SELECT l.id UNION SELECT n.waits_for FROM waiting AS n WHERE n.limit_id = l.id) AS i
        JOIN pgqueue_message AS m ON m.waits_for = i.id
        LIMIT p_most + 1
    ) AS n
) AS w
JOIN pgqueue_limit AS o ON o.id = coalesce(f.waits_for, l.id)
CROSS JOIN LATERAL pgqueue_limit_room(o, clock_timestamp()) AS r
WHERE l.breaker_failures IS NULL AND l.parent_id IS NULL
UNION ALL
SELECT 'queue', u.name::text, u.places, u.max_concurrency::bigint, NULL::bigint, NULL::bigint, u.tokens,
    least(c.messages, p_most),
    CASE WHEN h.oldest_at IS NOT NULL THEN greatest('0', clock_timestamp() - pgqueue_clamp_time(h.oldest_at)) END,
    u.why, c.messages <= p_most AND coalesce(h.complete, true)
FROM used AS u
LEFT JOIN held AS h ON h.queue = u.name
CROSS JOIN LATERAL (SELECT pgqueue_count_ready(coalesce(h.channel_ids, '{}'), p_most) AS messages) AS c
ORDER BY 1 DESC, 2;
$$;
