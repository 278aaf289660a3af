-- Returns the message that holds an ordered channel because it waits for a shared limit; NULL: none does.
-- Locks: none.
CREATE FUNCTION pgqueue_waiting_holder(p_channel_id bigint)
RETURNS bigint
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    -- Neither condition suits an index of waiting messages or of channels: the message is looked up by its key.
    RETURN (
        SELECT m.id
        FROM pgqueue_channel AS c
        CROSS JOIN LATERAL (
            SELECT o.current_id FROM pgqueue_lane AS o WHERE o.channel_id = c.id ORDER BY o.seq DESC LIMIT 1
        ) AS l
        CROSS JOIN LATERAL (
            SELECT n.id FROM pgqueue_message AS n
            WHERE n.id = l.current_id AND n.channel_id + 0 = c.id AND coalesce(n.waits_for, -1) >= 0 OFFSET 0
        ) AS m
        WHERE c.id = p_channel_id AND c.ordered);
END;
$$;
