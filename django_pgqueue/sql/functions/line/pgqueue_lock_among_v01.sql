-- Locks the ready messages of p_ids that belong to these channels, p_limit at most.
-- Returns their ids in the order of service.
-- Locks: messages, SKIP LOCKED. The callers pin the plans.
CREATE FUNCTION pgqueue_lock_among(p_ids bigint[], p_channel_ids bigint[], p_limit integer)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        -- The cast is as in pgqueue_announce.
        WHERE m.id = ANY (p_ids) AND m.channel_id = ANY (p_channel_ids) AND m.status::integer = 1
        ORDER BY -m.priority, m.dequeue_at, m.id LIMIT p_limit
        FOR UPDATE SKIP LOCKED);
END;
$$;
