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
SELECT q.* FROM pgqueue_queue_limits(p_most) AS q
ORDER BY 1 DESC, 2;
$$;
