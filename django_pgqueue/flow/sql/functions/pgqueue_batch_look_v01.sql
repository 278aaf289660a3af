-- Ends a sealed batch that has no member left. Only what may be the last settlement locks the batch; the others pass.
-- If members are being settled by other transactions, it waits for those that have passed. Those that have not passed
-- look after it, because they wait for the row of the batch. So exactly one of them finds no member.
-- Locks: the batch; then its advisory lock. It waits for both.
-- Errors: 40001 outside of READ COMMITTED, if the snapshot cannot tell.
CREATE FUNCTION pgqueue_batch_look(p_id bigint)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF pgqueue_batch_passes(p_id) THEN
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
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'the snapshot is too old to see whether batch % is over', p_id USING ERRCODE = '40001';
            END IF;
            RETURN;
        END IF;
    END IF;
    PERFORM pgqueue_batch_finish(p_id);
END;
$$;
