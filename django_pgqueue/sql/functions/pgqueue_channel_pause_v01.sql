-- Pauses a channel: nothing more of it is delivered, enqueue goes on; what is leased may be settled.
-- Caller: an operator. p_until: when the sweep resumes it, NULL: nobody does by itself. Locks: the channel's row. Errors: PGQ03, PGQ07.
CREATE FUNCTION pgqueue_channel_pause(
    p_name text,
    p_queue text DEFAULT 'default',
    p_reason text DEFAULT '',
    p_until timestamptz DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    IF p_until <= clock_timestamp() THEN
        RAISE EXCEPTION 'a pause until % is over already', p_until USING ERRCODE = 'PGQ07', HINT = 'Give a time that is to come, or none.';
    END IF;
    UPDATE pgqueue_channel AS c
    SET paused_at = coalesce(c.paused_at, clock_timestamp()),
        pause_reason = coalesce(p_reason, ''),
        paused_until = nullif(p_until, 'infinity')
    WHERE c.queue = p_queue AND c.name = p_name;
    IF NOT FOUND THEN
        PERFORM pgqueue_missing_channel(p_name, p_queue, false);
    END IF;
END;
$$;
