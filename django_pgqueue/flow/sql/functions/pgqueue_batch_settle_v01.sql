-- Takes members out of a batch, keeps those that were not completed, and ends the batch if no member is left.
-- Locks: as pgqueue_batch_look. The rows of members belong to messages that the caller has deleted.
CREATE FUNCTION pgqueue_batch_settle(p_id bigint, p_members bigint[], p_outcome text)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    DELETE FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id AND m.member_id = ANY (p_members);
    IF p_outcome NOT IN ('completed', 'popped') THEN
        INSERT INTO pgqueue_batch_lost (batch_id, member_id, outcome)
        SELECT p_id, u.id, p_outcome FROM unnest(p_members) AS u (id);
    END IF;
    PERFORM pgqueue_batch_look(p_id);
END;
$$;
