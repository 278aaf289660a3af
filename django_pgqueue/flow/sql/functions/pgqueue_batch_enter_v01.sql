-- Makes each message that this transaction inserts a member of a batch that is not over, until pgqueue_batch_leave.
-- Returns the refusal PGQ07 if the batch is over, or does not exist; NULL otherwise.
-- Locks: the batch, FOR KEY SHARE, so that it cannot end before this transaction.
CREATE FUNCTION pgqueue_batch_enter(p_id bigint)
RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    PERFORM FROM pgqueue_batch AS b WHERE b.id = p_id AND b.finished_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN pgqueue_refusal('PGQ07', format('batch %s is over', p_id),
            'Only a member that is not settled yet can add members.');
    END IF;
    PERFORM set_config('pgqueue.batch', p_id::text, true);
    RETURN NULL;
END;
$$;
