-- Lets the ordered channels of these messages have a turn again: the messages held them while they waited for a shared
-- limit.
-- The caller has made the messages ready, in the same transaction.
-- Locks: none (append only).
CREATE FUNCTION pgqueue_unpark_ordered(p_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO pgqueue_arrival (queue, channel_id)
    SELECT DISTINCT c.queue, c.id
    FROM unnest(p_ids) AS u (id)
    -- The OFFSET looks up each message by its key.
    CROSS JOIN LATERAL (SELECT m.channel_id FROM pgqueue_message AS m WHERE m.id = u.id OFFSET 0) AS m
    JOIN pgqueue_channel AS c ON c.id = m.channel_id AND c.ordered;
END;
$$;
