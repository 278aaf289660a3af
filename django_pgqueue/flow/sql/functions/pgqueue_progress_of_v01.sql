-- Returns how far the handlers of messages are, and where the messages are: ready | leased | scheduled | settled |
-- not_found. done is NULL for a message that has reported nothing.
-- Locks: none.
CREATE FUNCTION pgqueue_progress_of(p_ids bigint[])
RETURNS TABLE (
    id bigint, place text, done double precision, total double precision, note text, updated_at timestamptz
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
SELECT w.id, w.place, p.done, p.total, p.note, p.updated_at
FROM pgqueue_locate(p_ids) AS w
LEFT JOIN pgqueue_progress AS p ON p.message_id = w.id
ORDER BY w.id;
$$;
