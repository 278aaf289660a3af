-- Returns the batches that need a person. It changes nothing.
-- problem: open: sealed and without members, but not over: the next sweep ends it, if a settlement could not tell;
-- else it is an error of this app. full: the channel of the message that follows is full or busy, and each sweep tries again.
-- refused: the message that follows could not be enqueued, and the batch is over.
-- Locks: none.
CREATE FUNCTION pgqueue_batch_check()
RETURNS TABLE (id bigint, problem text, refusal jsonb)
LANGUAGE sql
SECURITY DEFINER
AS $$
    SELECT b.id,
        CASE WHEN b.finished_at IS NOT NULL THEN 'refused' WHEN b.refusal IS NOT NULL THEN 'full' ELSE 'open' END,
        b.refusal
    FROM pgqueue_batch AS b
    WHERE b.refusal IS NOT NULL
        OR b.sealed_at IS NOT NULL AND b.finished_at IS NULL
            AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = b.id)
    ORDER BY b.id;
$$;
