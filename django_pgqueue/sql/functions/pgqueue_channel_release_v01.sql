-- Releases a channel: it takes no new messages, what is there drains without limits, then pgqueue_prune removes the row.
-- Caller: an operator. Locks: the channel's row. Errors: PGQ03.
CREATE FUNCTION pgqueue_channel_release(p_name text, p_queue text DEFAULT 'default')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    UPDATE pgqueue_channel AS c SET released_at = coalesce(c.released_at, clock_timestamp()) WHERE c.queue = p_queue AND c.name = p_name;
    IF NOT FOUND THEN
        PERFORM pgqueue_missing_channel(p_name, p_queue, false);
    END IF;
END;
$$;
