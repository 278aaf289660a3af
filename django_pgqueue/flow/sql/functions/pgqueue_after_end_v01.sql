-- Lets a message go that waits for others, when none of them is left (pgqueue_after_finish), and, if it is cancelled,
-- tells those that wait for it. p_id: the id of the message, negative. Returns 1 if it has let it go, else 0.
-- Locks: as pgqueue_after_finish and pgqueue_after_settled.
CREATE FUNCTION pgqueue_after_end(p_id bigint)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_ended integer := pgqueue_after_finish(p_id);
BEGIN
    PERFORM pgqueue_after_settled(ARRAY[-p_id], 'cancelled')
    FROM pgqueue_batch AS b WHERE b.id = p_id AND b.finished_at IS NOT NULL;
    RETURN v_ended;
END;
$$;
