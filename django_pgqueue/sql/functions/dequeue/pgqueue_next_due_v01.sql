-- Returns how long it takes until a rate, or a held message, lets a channel of these queues, one of the queues or a
-- shared limit be served again; NULL: nothing has to wait.
-- No NOTIFY is sent at that time.
-- A worker asks before it sleeps. '0' or less: look again now. Paused queues do not count. The rate of a queue is left
-- out 10 milliseconds after its time, because pgqueue_is_contended is true then.
-- Locks: none.
CREATE FUNCTION pgqueue_next_due(p_queues text[])
RETURNS interval
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN least((
        SELECT min(least(n.parked_until, g.open_at)) - clock_timestamp()
        FROM unnest(p_queues) AS q (name)
        CROSS JOIN LATERAL pgqueue_floor_of(q.name) AS o
        LEFT JOIN LATERAL (
            SELECT l.parked_until FROM pgqueue_lane AS l
            WHERE l.queue = q.name AND l.parked_until >= o.parked_from AND l.parked_until < 'infinity'
            ORDER BY l.parked_until
            LIMIT 1
        ) AS n ON true
        LEFT JOIN LATERAL (
            SELECT b.open_at
            FROM pgqueue_queue AS r
            CROSS JOIN LATERAL (
                SELECT pgqueue_gate_time(r, s) AS open_at
                FROM pgqueue_gate AS s WHERE s.queue = r.name ORDER BY s.seq DESC LIMIT 1
            ) AS b
            WHERE r.name = q.name AND r.release_interval IS NOT NULL
                AND b.open_at > clock_timestamp() - interval '10 milliseconds'
        ) AS g ON true
        WHERE NOT EXISTS (SELECT FROM pgqueue_queue AS p WHERE p.name = q.name AND p.paused_at IS NOT NULL)),
        -- The next token of a shared limit that messages wait for.
        (
            SELECT min(t.at) - clock_timestamp()
            FROM pgqueue_waiting_limits(0, 100) AS w (id)
            JOIN pgqueue_limit AS o ON o.id = w.id
            -- The row of a channel goes by the settings of its limit.
            JOIN pgqueue_limit AS l ON l.id = coalesce(o.parent_id, o.id) AND l.paused_at IS NULL
            JOIN pgqueue_meter AS r ON r.limit_id = w.id
            CROSS JOIN LATERAL (
                -- The message whose turn it is may need more than one.
                SELECT CASE WHEN r.saved_at > clock_timestamp() - interval '1 second'
                    THEN least(r.saved_for, l.release_burst) ELSE 1 END AS tokens
            ) AS n
            CROSS JOIN LATERAL (
                SELECT r.filled_at + pgqueue_token_time(l.release_interval, (n.tokens - r.tokens)::numeric) AS at
            ) AS t
            WHERE t.at > clock_timestamp()),
        -- The next try of a breaker that messages wait for.
        (
            SELECT min(u.until) - clock_timestamp()
            FROM pgqueue_waiting_limits(0, 100) AS w (id)
            JOIN pgqueue_limit AS l ON l.id = w.id AND l.open_until IS NOT NULL
            CROSS JOIN LATERAL pgqueue_breaker_until(l, coalesce(l.channel_id, 0)) AS u (until)
            WHERE u.until > clock_timestamp()));
END;
$$;
