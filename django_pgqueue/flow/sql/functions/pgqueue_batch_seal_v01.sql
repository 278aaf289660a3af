-- Seals a batch: from now on it is over when no member is left, which an empty batch is at once. Messages that the
-- transaction inserts later become members of the outer batch, if there is one.
-- Locks: the batch, which this transaction has written.
CREATE FUNCTION pgqueue_batch_seal(p_id bigint)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_parent bigint;
BEGIN
    UPDATE pgqueue_batch AS b
    SET sealed_at = clock_timestamp(),
        total = (SELECT count(*) FROM pgqueue_batch_member AS m WHERE m.batch_id = b.id)
            + (SELECT count(*) FROM pgqueue_batch_lost AS l WHERE l.batch_id = b.id)
    WHERE b.id = p_id AND b.sealed_at IS NULL
    RETURNING b.parent_id INTO v_parent;
    IF FOUND THEN
        PERFORM set_config('pgqueue.batch', coalesce(v_parent::text, ''), true);
        -- No other transaction sees the batch yet, so there is nothing to wait for.
        PERFORM pgqueue_batch_finish(p_id);
    END IF;
END;
$$;
