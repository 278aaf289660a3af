-- Resumes a paused queue, and wakes the workers that sleep on it.
-- Caller: an operator. Locks: the queue's row. Errors: PGQ03, when the queue has neither a channel nor a row.
CREATE FUNCTION pgqueue_queue_resume(p_queue text DEFAULT 'default')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    PERFORM pgqueue_missing_queue(p_queue);
    UPDATE pgqueue_queue AS q SET paused_at = NULL, pause_reason = '', paused_until = NULL
    WHERE q.name = p_queue AND q.paused_at IS NOT NULL;
    IF FOUND THEN
        PERFORM pgqueue_wake(p_queue);
    END IF;
END;
$$;
