-- Seals what a message waits for: from now on, the last one that ends lets it go.
-- p_id: the id of the message, negative. Returns whether it is sealed; false: one that it waits for is locked, for
-- example by its settlement, or the snapshot is old. Then the next sweep tries again.
-- Locks: the row of pgqueue_batch, which the caller has locked; as pgqueue_after_hold.
CREATE FUNCTION pgqueue_after_seal(p_id bigint)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_policy text;
BEGIN
    SELECT b.policy INTO v_policy FROM pgqueue_batch AS b WHERE b.id = p_id AND b.sealed_at IS NULL;
    IF FOUND AND NOT pgqueue_after_hold(p_id, v_policy, true) THEN
        RETURN false;
    END IF;
    UPDATE pgqueue_batch AS b SET sealed_at = clock_timestamp() WHERE b.id = p_id AND b.sealed_at IS NULL;
    RETURN true;
END;
$$;
