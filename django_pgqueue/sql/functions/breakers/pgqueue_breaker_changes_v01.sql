-- Returns the changes of breakers since the last call, the oldest first and p_most at most, and deletes them: so one
-- worker alone reports each change.
-- Returns change: opened, tried (a message runs as a try) or closed; until: of opened, when a message may try;
--   message_id: of tried, that message. queue and channel are NULL for a breaker of a handler.
-- Locks: the changes, SKIP LOCKED.
CREATE FUNCTION pgqueue_breaker_changes(p_most integer DEFAULT 1000)
RETURNS TABLE (
    at timestamptz,
    change text,
    handler text,
    queue text,
    channel text,
    until timestamptz,
    message_id bigint
)
LANGUAGE sql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
-- Takes the oldest changes.
WITH taken AS (
    DELETE FROM pgqueue_breaker_change AS n
    WHERE n.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgqueue_breaker_change AS o ORDER BY o.at LIMIT p_most FOR UPDATE SKIP LOCKED))
    RETURNING n.*
)
SELECT t.at, t.change::text, l.breaker_handler::text, c.queue::text, c.name::text, t.until, t.message_id
FROM taken AS t
JOIN pgqueue_limit AS l ON l.id = t.limit_id
LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
ORDER BY t.at;
$$;
