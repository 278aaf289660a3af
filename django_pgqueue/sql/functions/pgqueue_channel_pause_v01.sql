-- Pauses a channel: nothing more of it is delivered, enqueue goes on; what is leased may be settled.
-- Caller: an operator. Locks: the channel's row. Errors: PGQ03.
CREATE FUNCTION pgqueue_channel_pause(p_name text, p_queue text DEFAULT 'default', p_reason text DEFAULT '')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    UPDATE pgqueue_channel AS c SET paused_at = coalesce(c.paused_at, clock_timestamp()), pause_reason = coalesce(p_reason, '')
    WHERE c.queue = p_queue AND c.name = p_name;
    IF NOT FOUND THEN
        PERFORM pgqueue_missing_channel(p_name, p_queue, false);
    END IF;
END;
$$;
