-- Returns the breaker of a handler, unless it is closed and its last outcome is no failure: then it cannot open before
-- the next failure, and neither a lease nor a success has to look at it any closer.
-- The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_alert_breaker(p_handler text, p_channel_id bigint)
RETURNS TABLE (limit_id bigint)
LANGUAGE sql
STABLE
AS $$
SELECT b.id
FROM pgqueue_limit_handler AS h
JOIN pgqueue_limit AS b ON b.id = h.limit_id
WHERE h.handler = p_handler AND h.breaker
    AND (
        b.open_until IS NOT NULL
        OR b.per = 'channel' AND EXISTS (
            SELECT FROM pgqueue_limit AS c
            WHERE c.parent_id = b.id AND c.channel_id = p_channel_id AND c.open_until IS NOT NULL)
        OR (
            SELECT o.failed FROM pgqueue_breaker_outcome AS o
            WHERE o.limit_id = b.id AND o.channel_id = CASE b.per WHEN 'channel' THEN p_channel_id ELSE 0 END
            ORDER BY o.ended_at DESC LIMIT 1)
    );
$$;
