-- Returns the refusal that a queue does not exist; NULL when it exists: it has a channel, or a row of its own.
-- Locks: none.
CREATE FUNCTION pgqueue_missing_queue(p_queue text)
RETURNS jsonb
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.queue = p_queue)
        OR EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue)
    THEN
        RETURN NULL;
    END IF;
    RETURN pgqueue_refusal('PGQ03', format('queue "%s" does not exist: it has no channel', left(p_queue, 100)),
        format('Check the name, or create a channel in it with '
            'pgqueue_channel_set(p_queue => %L, p_channel => ''default'').',
            left(p_queue, 100)));
END;
$$;
