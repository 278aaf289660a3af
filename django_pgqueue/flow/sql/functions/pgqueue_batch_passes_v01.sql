-- Returns whether a later settlement is sure to look at the batch again, so that this one need not: there is a member
-- that no transaction is settling (its xmax is 0). The one that settles it will see what this transaction has deleted.
-- The caller must have deleted its members before. False is always safe: the caller then looks under a lock.
-- Locks: an advisory lock of the batch, shared, until the transaction ends: the last settlement waits for it
-- (pgqueue_batch_look). It waits for as long as its caller allows. If the look under the lock fails, the lock is given
-- back by the end of the inner block.
CREATE FUNCTION pgqueue_batch_passes(p_id bigint)
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF NOT pgqueue_batch_has_untouched(p_id) THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('pgqueue_batch', p_id));
    IF pgqueue_batch_has_untouched(p_id) THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'another transaction has begun to settle the last members' USING ERRCODE = 'lock_not_available';
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END;
$$;
