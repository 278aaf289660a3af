-- Returns whether a later settlement is sure to look at the batch again, so that this one need not: there is a member
-- that no transaction is settling (its xmax is 0). Whoever settles it will see what this transaction has deleted.
-- The caller must have deleted its members before.
-- Locks: an advisory lock of the batch, shared, until the transaction ends: the last settlement waits for it
-- (pgqueue_batch_look). If the look under the lock fails, it is given back by the end of the inner block.
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
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('pgqueue_batch', p_id));
        IF pgqueue_batch_has_untouched(p_id) THEN
            RETURN true;
        END IF;
        RAISE EXCEPTION 'another transaction has begun to settle the last members' USING ERRCODE = 'PGQ12';
    EXCEPTION WHEN SQLSTATE 'PGQ12' THEN
        RETURN false;
    END;
END;
$$;
