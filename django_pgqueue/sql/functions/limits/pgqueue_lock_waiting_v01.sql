-- Locks the messages of a channel that wait for a shared limit and are promoted next: the first p_most; in an ordered
-- channel only the one that holds it, if that waits for this limit.
-- p_ahead: NULL, or the channel is not served: so many of its messages may be ready for the limit, with those that are.
-- p_now: the caller's reading of the clock.
-- Returns the ids, in the order of service.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_lock_waiting(
    p_limit_id bigint, p_channel_id bigint, p_most integer, p_ahead integer, p_now timestamptz
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_holder bigint := pgqueue_waiting_holder(p_channel_id);
BEGIN
    -- Others of the channel may have been promoted before it was ordered. They stand behind this one, and do not count.
    -- coalesce keeps the index of waiting messages out, which a condition on the column alone would suit.
    IF EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = v_holder AND coalesce(m.waits_for, -2) = p_limit_id) THEN
        RETURN ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.id = v_holder AND coalesce(m.waits_for, -2) = p_limit_id AND m.dequeue_at <= p_now
            FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.waits_for = p_limit_id AND m.channel_id = p_channel_id AND m.dequeue_at <= p_now
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT CASE
            WHEN p_ahead IS NULL THEN p_most
            ELSE greatest(0, p_ahead - (SELECT count(*) FROM pgqueue_message AS a
                WHERE a.promoted_for = p_limit_id AND a.channel_id = p_channel_id))
        END
        FOR UPDATE SKIP LOCKED);
END;
$$;
