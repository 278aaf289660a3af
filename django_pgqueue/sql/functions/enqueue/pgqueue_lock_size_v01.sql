-- Locks the count of live messages of a channel that has a max_size, and returns it; counts them when there is no count
-- yet.
-- p_messages: how many of them the caller has inserted itself. p_wait: false returns NULL where it would have to wait,
-- or to count.
-- Locks: the channel's row in pgqueue_channel_size.
CREATE FUNCTION pgqueue_lock_size(p_channel_id bigint, p_messages bigint, p_wait boolean)
RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_live bigint;
BEGIN
    IF NOT p_wait THEN
        SELECT s.live INTO v_live FROM pgqueue_channel_size AS s
        WHERE s.channel_id = p_channel_id FOR UPDATE SKIP LOCKED;
        RETURN v_live;
    END IF;
    IF NOT EXISTS (SELECT FROM pgqueue_channel_size AS s WHERE s.channel_id = p_channel_id) THEN
        INSERT INTO pgqueue_channel_size (channel_id, live)
        SELECT p_channel_id,
            pgqueue_count_live(p_channel_id) - p_messages
            + (SELECT coalesce(sum(d.messages), 0) FROM pgqueue_departure AS d WHERE d.channel_id = p_channel_id)
        ON CONFLICT DO NOTHING;
    END IF;
    SELECT s.live INTO v_live FROM pgqueue_channel_size AS s WHERE s.channel_id = p_channel_id FOR UPDATE;
    RETURN v_live;
END;
$$;
