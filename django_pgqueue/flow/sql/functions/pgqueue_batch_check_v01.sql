-- Returns the batches that need a person: problem open: sealed and without members, but not over, which would be an
-- error of this app; refused: the message that follows could not be enqueued. It changes nothing.
-- Locks: none.
CREATE FUNCTION pgqueue_batch_check()
RETURNS TABLE (id bigint, problem text, refusal jsonb)
LANGUAGE sql
SECURITY DEFINER
AS $$
    SELECT b.id, CASE WHEN b.finished_at IS NULL THEN 'open' ELSE 'refused' END, b.refusal
    FROM pgqueue_batch AS b
    WHERE b.refusal IS NOT NULL
        OR b.sealed_at IS NOT NULL AND b.finished_at IS NULL
            AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = b.id)
    ORDER BY b.id;
$$;
