-- Ends the debt of a rate, which messages have left that cost more than its bucket had: the bucket is then empty. A
-- bucket without a debt stays as it is.
-- One parameter says whose rate it is: of a channel, of a queue or of a shared limit.
-- Locks: none (append only, as pgqueue_adjust_rates): the next dequeue gets the tokens back.
CREATE FUNCTION pgqueue_forgive(
    p_channel_id bigint DEFAULT NULL, p_queue text DEFAULT NULL, p_limit_id bigint DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgqueue_arrival (queue, channel_id, spent)
    SELECT c.queue, c.id, c.release_burst - n.tokens
    FROM pgqueue_channel AS c
    CROSS JOIN LATERAL (
        SELECT ceil(extract(epoch FROM greatest(v_now, pgqueue_bucket_time(
                l.next_at, l.debt, c.release_interval, c.release_burst, v_now)) - v_now)
            / extract(epoch FROM c.release_interval))::bigint
            + (SELECT coalesce(sum(a.spent), 0) FROM pgqueue_arrival AS a WHERE a.channel_id = c.id)::bigint AS tokens
        FROM pgqueue_lane AS l WHERE l.channel_id = c.id ORDER BY l.seq DESC LIMIT 1
    ) AS n
    WHERE c.id = p_channel_id AND c.release_interval IS NOT NULL AND n.tokens > c.release_burst;
    INSERT INTO pgqueue_spent (queue, cost)
    SELECT q.name, q.release_burst - n.tokens
    FROM pgqueue_queue AS q
    CROSS JOIN LATERAL (
        SELECT ceil(extract(epoch FROM greatest(v_now, pgqueue_bucket_time(
                g.next_at, g.debt, q.release_interval, q.release_burst, v_now)) - v_now)
            / extract(epoch FROM q.release_interval))::bigint
            + (SELECT coalesce(sum(s.cost), 0) FROM pgqueue_spent AS s WHERE s.queue = q.name)::bigint AS tokens
        FROM pgqueue_gate AS g WHERE g.queue = q.name ORDER BY g.seq DESC LIMIT 1
    ) AS n
    WHERE q.name = p_queue AND q.release_interval IS NOT NULL AND n.tokens > q.release_burst;
    INSERT INTO pgqueue_spent (limit_id, cost)
    SELECT l.id, floor(r.tokens)
    FROM pgqueue_limit AS l CROSS JOIN LATERAL pgqueue_limit_room(l, v_now) AS r
    WHERE l.id = p_limit_id AND r.tokens < 0;
    PERFORM pgqueue_wake(n.queue)
    FROM (
        SELECT p_queue AS queue WHERE p_queue IS NOT NULL
        UNION ALL
        SELECT c.queue FROM pgqueue_channel AS c WHERE c.id = p_channel_id
    ) AS n;
    PERFORM pgqueue_wake_waiting() WHERE p_limit_id IS NOT NULL;
END;
$$;
