-- Locks messages of channels that no worker holds, at most p_limit: first the ready ones, then the scheduled ones.
-- p_until: the last id that counts.
-- Returns their ids.
-- Locks: the messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_lock_unleased(
    p_channel_ids bigint[], p_limit integer, p_until bigint DEFAULT 9223372036854775807
)
RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT w.id
        FROM unnest(p_channel_ids) AS u (id)
        CROSS JOIN LATERAL (
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = u.id AND m.status = 1 AND m.id <= p_until
            ORDER BY -m.priority, m.dequeue_at, m.id
            FOR UPDATE SKIP LOCKED
        ) AS w
        LIMIT p_limit);
    RETURN v_ids || ARRAY(
        SELECT w.id
        FROM unnest(p_channel_ids) AS u (id)
        CROSS JOIN LATERAL (
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = u.id AND m.status = 3 AND m.id <= p_until
            ORDER BY m.dequeue_at
            FOR UPDATE SKIP LOCKED
        ) AS w
        LIMIT p_limit - cardinality(v_ids));
END;
$$;
