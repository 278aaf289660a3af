-- Pauses a queue: nothing of it is delivered, whatever the channel; enqueue goes on; what is leased may be settled.
-- Caller: an operator. p_until: when the sweep resumes it, NULL: nobody does by itself. Locks: the queue's row.
-- Errors: PGQ03, when the queue has neither a channel nor a row; PGQ07.
CREATE FUNCTION pgqueue_queue_pause(p_queue text DEFAULT 'default', p_reason text DEFAULT '', p_until timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    IF p_until <= clock_timestamp() THEN
        RAISE EXCEPTION 'a pause until % is over already', p_until USING ERRCODE = 'PGQ07', HINT = 'Give a time that is to come, or none.';
    END IF;
    PERFORM pgqueue_missing_queue(p_queue);
    INSERT INTO pgqueue_queue AS q (name, paused_at, pause_reason, paused_until)
    VALUES (p_queue, clock_timestamp(), coalesce(p_reason, ''), nullif(p_until, 'infinity'))
    ON CONFLICT (name) DO UPDATE
    SET paused_at = coalesce(q.paused_at, excluded.paused_at),
        pause_reason = excluded.pause_reason,
        paused_until = excluded.paused_until;
END;
$$;
