-- Returns the batches that need a person, and, by their negative ids, messages that wait. It changes nothing.
-- problem: open: sealed and without members, but not over: the next sweep ends it, if a settlement could not tell;
-- else it is an error of this app. full: the channel of the message that follows is full or busy, and each sweep tries again.
-- refused: the message that follows could not be enqueued, and the batch is over. endless: the message waits for one
-- that is neither live nor a dead letter, an error of this app, or of a person who deleted rows.
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
    UNION ALL
    SELECT DISTINCT b.id, 'endless', NULL::jsonb
    FROM pgqueue_batch AS b JOIN pgqueue_batch_member AS m ON m.batch_id = b.id
    WHERE b.id < 0 AND b.sealed_at IS NOT NULL AND NOT EXISTS (SELECT FROM pgqueue_message AS g WHERE g.id = m.member_id)
        AND NOT EXISTS (
            SELECT FROM pgqueue_dead_letter AS d WHERE d.id = m.member_id AND d.redriven_to IS NULL)
    ORDER BY 1;
$$;
