-- Returns the message that holds an ordered channel because it waits for a shared limit; NULL: none does.
-- Locks: none.
CREATE FUNCTION pgqueue_waiting_holder(p_channel_id bigint)
RETURNS bigint
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    -- The sum keeps the index of waiting messages out: the message is looked up by its key.
    RETURN (
        SELECT m.id
        FROM pgqueue_channel AS c
        CROSS JOIN LATERAL (
            SELECT o.current_id FROM pgqueue_lane AS o WHERE o.channel_id = c.id ORDER BY o.seq DESC LIMIT 1
        ) AS l
        JOIN pgqueue_message AS m ON m.id = l.current_id AND m.channel_id = c.id AND m.waits_for + 0 >= 0
        WHERE c.id = p_channel_id AND c.ordered);
END;
$$;
