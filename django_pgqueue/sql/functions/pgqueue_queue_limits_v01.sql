-- Reports the use of the limits of whole queues, and the ready messages that they hold up.
-- Leases are counted as pgqueue_queue_allowance counts them, and at no higher cost.
-- Locks: none.
CREATE FUNCTION pgqueue_queue_limits(p_most integer)
RETURNS SETOF pgqueue_limit_use
LANGUAGE sql
STABLE
AS $$
-- Reads each queue that has a limit, its leases and its bucket.
WITH used AS MATERIALIZED (
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
SELECT 'queue', u.name::text, u.places, u.max_concurrency::bigint, NULL::bigint, NULL::bigint, u.tokens,
    least(c.messages, p_most),
    CASE WHEN h.oldest_at IS NOT NULL THEN greatest('0', clock_timestamp() - pgqueue_clamp_time(h.oldest_at)) END,
    u.why, c.messages <= p_most AND coalesce(h.complete, true)
FROM used AS u
LEFT JOIN held AS h ON h.queue = u.name
CROSS JOIN LATERAL (SELECT pgqueue_count_ready(coalesce(h.channel_ids, '{}'), p_most) AS messages) AS c;
$$;
