-- Ends a sealed batch that has no member left. Only what may be the last settlement locks the batch; the others pass.
-- If members are being settled by other transactions, it waits for those that have passed. Those that have not passed
-- look after it, because they wait for the row of the batch. So exactly one of them finds no member.
-- If it cannot tell, it leaves the batch to the next sweep (pgqueue_batch_sweep): after half a second of waiting for a
-- lock, and outside of READ COMMITTED, where a look sees an old snapshot.
-- Locks: the batch; then its advisory lock. It waits for half a second at most for each.
CREATE FUNCTION pgqueue_batch_look(p_id bigint)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = 500
AS $$
BEGIN
    IF pgqueue_batch_passes(p_id) THEN
        RETURN;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO pgqueue_batch_unsure (batch_id) VALUES (p_id);
        RETURN;
    END IF;
    PERFORM FROM pgqueue_batch AS b
    WHERE b.id = p_id AND b.sealed_at IS NOT NULL AND b.finished_at IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Each look is a statement of its own: it sees what was committed while this transaction waited.
    IF EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id) THEN
        IF pgqueue_batch_has_untouched(p_id) THEN
            RETURN;
        END IF;
        PERFORM pg_advisory_xact_lock(hashtextextended('pgqueue_batch', p_id));
        IF EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id) THEN
            RETURN;
        END IF;
    END IF;
    PERFORM pgqueue_batch_finish(p_id);
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    INSERT INTO pgqueue_batch_unsure (batch_id) VALUES (p_id);
END;
$$;
