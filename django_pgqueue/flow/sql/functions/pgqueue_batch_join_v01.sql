-- Adds members to a batch that is not over.
-- Locks: the batch, FOR KEY SHARE, so that it cannot end before this transaction. It waits for
-- two seconds at most.
-- Errors: PGQ07 the batch is over, or does not exist.
CREATE FUNCTION pgqueue_batch_join(p_id bigint, p_members bigint[])
RETURNS void
LANGUAGE plpgsql
SET lock_timeout = 2000
AS $$
DECLARE
    v_sealed_at timestamptz;
BEGIN
    SELECT b.sealed_at INTO v_sealed_at
    FROM pgqueue_batch AS b
    WHERE b.id = p_id AND b.finished_at IS NULL
    FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'batch % is over', p_id USING ERRCODE = 'PGQ07';
    END IF;
    INSERT INTO pgqueue_batch_member (batch_id, member_id) SELECT p_id, u.id FROM unnest(p_members) AS u (id);
    IF v_sealed_at IS NOT NULL THEN
        INSERT INTO pgqueue_batch_added (batch_id, members) VALUES (p_id, cardinality(p_members));
    END IF;
END;
$$;
