-- Resumes a paused channel; its lane goes to the tail of the line.
-- Caller: an operator. Locks: the channel's row. Errors: PGQ03.
CREATE FUNCTION pgqueue_channel_resume(p_name text, p_queue text DEFAULT 'default')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    UPDATE pgqueue_channel AS c SET paused_at = NULL, pause_reason = '', paused_until = NULL
    WHERE c.queue = p_queue AND c.name = p_name;
    IF NOT FOUND THEN
        PERFORM pgqueue_missing_channel(p_name, p_queue, false);
    END IF;
END;
$$;
