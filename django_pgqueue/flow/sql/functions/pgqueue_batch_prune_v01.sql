-- Deletes batches that have been over for longer than p_older_than, with what is kept of their members, 10,000 a call.
-- NULL keeps them; and progress that was begun as long ago, of messages that are not live; and events of that age. A
-- prune runs it.
-- Returns how many were deleted.
-- Locks: batches, SKIP LOCKED.
CREATE FUNCTION pgqueue_batch_prune(p_older_than interval)
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT b.id FROM pgqueue_batch AS b
        WHERE b.finished_at < clock_timestamp() - p_older_than
        LIMIT 10000
        FOR UPDATE SKIP LOCKED);
    DELETE FROM pgqueue_batch_lost AS l WHERE l.batch_id = ANY (v_ids);
    DELETE FROM pgqueue_batch_added AS a WHERE a.batch_id = ANY (v_ids);
    DELETE FROM pgqueue_batch AS b WHERE b.id = ANY (v_ids);
    -- The message stopped to wait while one that it waited for was being settled.
    DELETE FROM pgqueue_batch_lost AS l
    WHERE l.batch_id < 0 AND NOT EXISTS (SELECT FROM pgqueue_batch AS b WHERE b.id = l.batch_id);
    DELETE FROM pgqueue_progress AS p
    WHERE p.message_id = ANY (ARRAY(
        SELECT o.message_id FROM pgqueue_progress AS o
        WHERE o.started_at < clock_timestamp() - p_older_than
            AND NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = o.message_id)
        ORDER BY o.started_at
        LIMIT 10000
        FOR UPDATE SKIP LOCKED));
    DELETE FROM pgqueue_event AS e
    WHERE e.name = ANY (ARRAY(
        SELECT o.name FROM pgqueue_event AS o
        WHERE o.notified_at < clock_timestamp() - p_older_than
        ORDER BY o.notified_at
        LIMIT 10000
        FOR UPDATE SKIP LOCKED));
    RETURN cardinality(v_ids);
END;
$$;
