-- Returns which breakers are open, of messages that have failed: a worker gives back what it has not started of them.
-- It also finds those that their outcomes have opened and that no transaction has written down yet, because two
-- settlements at the same time did not see each other. The next dequeue, or settlement of a failure, writes that down.
-- p_handlers, p_queues, p_channels: of the messages, at the same places.
-- Returns handler; queue and channel: NULL for a breaker of a handler.
-- Locks: as pgqueue_watch_breaker.
CREATE FUNCTION pgqueue_open_breakers(p_handlers text[], p_queues text[], p_channels text[])
RETURNS TABLE (handler text, queue text, channel text)
LANGUAGE sql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
SELECT DISTINCT u.handler, n.queue, n.channel
FROM unnest(p_handlers, p_queues, p_channels) AS u (handler, queue, channel)
JOIN pgqueue_limit_handler AS h ON h.handler = u.handler AND h.breaker
JOIN pgqueue_limit AS b ON b.id = h.limit_id
JOIN pgqueue_channel AS c ON c.queue = u.queue AND c.name = u.channel
LEFT JOIN LATERAL (SELECT u.queue, u.channel WHERE b.per = 'channel') AS n ON true
WHERE pgqueue_watch_breaker(b.id, c.id) IS NOT NULL;
$$;
