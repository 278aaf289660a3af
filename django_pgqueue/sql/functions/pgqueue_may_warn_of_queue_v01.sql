-- Returns whether the server log may be warned now that a queue is not picked up: at most once in ten seconds for each
-- queue.
-- The caller runs one at a time, by its try-lock.
-- Locks: the queue's row in pgqueue_queue_warning, for which no other transaction waits.
CREATE FUNCTION pgqueue_may_warn_of_queue(p_queue text, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO pgqueue_queue_warning AS w (queue, warned_at) VALUES (p_queue, p_now)
    ON CONFLICT (queue) DO UPDATE SET warned_at = excluded.warned_at
    -- A time in the future comes from a clock that was set back: it does not prevent a warning.
    WHERE excluded.warned_at NOT BETWEEN w.warned_at AND w.warned_at + interval '10 seconds';
    RETURN FOUND;
END;
$$;
