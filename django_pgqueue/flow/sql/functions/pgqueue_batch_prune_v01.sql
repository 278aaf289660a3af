-- Deletes batches that have been over for longer than p_older_than, with what is kept of their members, at most p_limit.
-- Returns how many were deleted; p_limit: call again.
-- Locks: batches, SKIP LOCKED.
CREATE FUNCTION pgqueue_batch_prune(p_older_than interval DEFAULT '30 days', p_limit integer DEFAULT 1000)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT b.id FROM pgqueue_batch AS b
        WHERE b.finished_at < clock_timestamp() - p_older_than
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED);
    DELETE FROM pgqueue_batch_lost AS l WHERE l.batch_id = ANY (v_ids);
    DELETE FROM pgqueue_batch_added AS a WHERE a.batch_id = ANY (v_ids);
    DELETE FROM pgqueue_batch AS b WHERE b.id = ANY (v_ids);
    RETURN cardinality(v_ids);
END;
$$;
