-- Returns the ready messages that come next, without a lease: of one channel, or of the channels in the line of a
-- queue.
-- It claims nothing: another session may take them at once.
-- Locks: none.
CREATE FUNCTION pgqueue_peek(p_queue text DEFAULT 'default', p_channel text DEFAULT NULL, p_limit integer DEFAULT 1)
RETURNS TABLE (
    id bigint,
    channel text,
    handler text,
    payload jsonb,
    body bytea,
    headers jsonb,
    priority smallint,
    attempts integer,
    max_attempts integer,
    state jsonb,
    created_at timestamptz,
    dequeue_at timestamptz,
    last_leased_at timestamptz
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET plan_cache_mode = force_custom_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    -- A plan for one channel is not one for all of them.
    RETURN QUERY
    SELECT m.id, c.name::text, m.handler::text, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
        m.state, m.created_at, m.dequeue_at, m.last_leased_at
    FROM (
        SELECT c.id, c.name, coalesce(min(l.seq), 9223372036854775807) AS place
        FROM pgqueue_channel AS c
        LEFT JOIN pgqueue_lane AS l ON l.channel_id = c.id
        WHERE c.queue = p_queue AND (p_channel IS NULL OR c.name = p_channel)
        GROUP BY c.id, c.name
        ORDER BY place
        LIMIT CASE WHEN p_channel IS NULL THEN 1000 ELSE 1 END
    ) AS c
    CROSS JOIN LATERAL (
        SELECT m.* FROM pgqueue_message AS m
        WHERE m.channel_id = c.id AND m.status = 1
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT p_limit
    ) AS m
    ORDER BY c.place, -m.priority, m.dequeue_at, m.id
    LIMIT p_limit;
END;
$$;
