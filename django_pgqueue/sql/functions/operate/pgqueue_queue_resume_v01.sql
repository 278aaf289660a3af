-- Resumes a paused queue, and wakes the workers that sleep on it.
-- Returns resumed; or the refusal PGQ03, when the queue has neither a channel nor a row.
-- Locks: the queue's row.
CREATE FUNCTION pgqueue_queue_resume(p_queue text DEFAULT 'default', OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    refusal := pgqueue_missing_queue(p_queue);
    IF refusal IS NULL THEN
        UPDATE pgqueue_queue AS q SET paused_at = NULL, pause_reason = '', paused_until = NULL
        WHERE q.name = p_queue AND q.paused_at IS NOT NULL;
        IF FOUND THEN
            PERFORM pgqueue_wake(p_queue);
        END IF;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'resumed');
END;
$$;
