-- Makes each message that this transaction inserts a member of a batch that is not over, until the caller sets
-- pgqueue.batch back to what it was.
-- Returns a refusal if the batch is over or does not exist (PGQ07), or if a transaction that may be ending it holds it
-- for two seconds (PGQ06); NULL otherwise.
-- Locks: the batch, FOR KEY SHARE, so that it cannot end before this transaction. It waits for two seconds at most.
CREATE FUNCTION pgqueue_batch_enter(p_id bigint)
RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET lock_timeout = 2000
AS $$
BEGIN
    PERFORM FROM pgqueue_batch AS b WHERE b.id = p_id AND b.id > 0 AND b.finished_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN pgqueue_refusal('PGQ07', format('batch %s is over', p_id),
            'Only a member that is not settled yet can add members.');
    END IF;
    PERFORM set_config('pgqueue.batch', p_id::text, true);
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    RETURN pgqueue_refusal('PGQ06', format('batch %s is held by a transaction that settles its members', p_id),
        'Try again later.');
END;
$$;
