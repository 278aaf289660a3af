-- Pauses a queue: nothing of it is delivered, whatever the channel; enqueue goes on; what is leased may be settled.
-- Caller: an operator. Locks: the queue's row. Errors: PGQ03, when the queue has neither a channel nor a row.
CREATE FUNCTION pgqueue_queue_pause(p_queue text DEFAULT 'default', p_reason text DEFAULT '')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    PERFORM pgqueue_missing_queue(p_queue);
    INSERT INTO pgqueue_queue AS q (name, paused_at, pause_reason)
    VALUES (p_queue, clock_timestamp(), coalesce(p_reason, ''))
    ON CONFLICT (name) DO UPDATE
    SET paused_at = coalesce(q.paused_at, excluded.paused_at),
        pause_reason = excluded.pause_reason;
END;
$$;
