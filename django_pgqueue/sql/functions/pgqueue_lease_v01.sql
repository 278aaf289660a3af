-- Takes up to p_limit messages of a queue and leases them: the long way of pgqueue_dequeue, which documents the
-- parameters.
-- Caller: pgqueue_dequeue.
-- With fewer than p_limit it brings back expired leases and scheduled messages that are due (pgqueue_bring_back), and
-- takes again. The settings of pgqueue_dequeue pin the plans.
-- Returns the columns of pgqueue_dequeue.
-- Locks: lanes and messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_lease(
    p_queue text,
    p_limit integer,
    p_lease interval,
    p_worker text
)
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
    token uuid,
    lease_expires_at timestamptz,
    state jsonb,
    created_at timestamptz,
    dequeue_at timestamptz,
    context jsonb,
    last_leased_at timestamptz
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_taken record;
    v_token uuid := gen_random_uuid();
    v_count integer := 0;
    v_looked boolean := false;
BEGIN
    FOR v_try IN 0..4 LOOP
        v_taken := pgqueue_take(p_queue, p_limit - v_count);
        -- Repeats at once: the arrivals that were folded last stand in the line only now.
        CONTINUE WHEN v_taken.ids = '{}' AND v_taken.contended AND v_try = 0;
        IF v_taken.ids <> '{}' THEN
            v_count := v_count + cardinality(v_taken.ids);
            RETURN QUERY
            -- Leases the taken messages.
            WITH leased AS (
                UPDATE pgqueue_message AS m
                SET status = 2,
                    attempts = m.attempts + 1,
                    leased_at = v_taken.taken_at,
                    lease_expires_at = v_taken.taken_at + p_lease,
                    lease_token = v_token,
                    worker = p_worker
                WHERE m.id = ANY (v_taken.ids)
                RETURNING m.id, m.channel_id, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts,
                    m.max_attempts, m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at,
                    m.last_leased_at
            )
            SELECT l.id, c.name::text, l.handler::text, l.payload, l.body, l.headers, l.priority, l.attempts,
                l.max_attempts, l.lease_token, l.lease_expires_at, l.state, l.created_at, l.dequeue_at,
                nullif(c.context, '{}'), l.last_leased_at
            FROM leased AS l
            LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
            ORDER BY array_position(v_taken.ids, l.id);
        END IF;
        -- Repeats once at most with some messages, a few times with none: those that come back may be of channels at
        -- their limit.
        EXIT WHEN v_count = p_limit OR (v_count > 0 AND v_looked)
            OR pgqueue_bring_back(p_queue, p_limit - v_count, v_taken.taken_at, p_worker) = 0;
        v_looked := true;
    END LOOP;
END;
$$;
