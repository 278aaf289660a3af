-- Says that a queue does not exist, unless it does: it has a channel, or a row of its own.
-- Caller: pgqueue_queue_pause, pgqueue_queue_resume. Locks: none. Errors: PGQ03.
CREATE FUNCTION pgqueue_missing_queue(p_queue text)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.queue = p_queue)
        AND NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue)
    THEN
        RAISE EXCEPTION 'queue "%" does not exist: it has no channel', left(p_queue, 100)
            USING ERRCODE = 'PGQ03', HINT = 'Check the name, or create a channel in it with pgqueue_channel_set(name, queue).';
    END IF;
END;
$$;
