-- Returns the ordered channels that a failing or deferred message holds: it was delivered before, and no other message
-- of the channel is delivered until it is settled for good.
-- p_queue: one queue; default: all. It looks at up to p_most ordered channels. since: the time of the first failure, or
-- of the last deferral; attempts: those that were begun; held_until: the time of the next delivery, NULL while the
-- message is leased or waits for a shared limit; behind: whether other messages of the channel are ready.
-- Locks: none.
CREATE FUNCTION pgqueue_held_channels(p_queue text DEFAULT NULL, p_most integer DEFAULT 10000)
RETURNS TABLE (
    queue text,
    channel text,
    message_id bigint,
    handler text,
    since timestamptz,
    attempts integer,
    max_attempts integer,
    held_until timestamptz,
    behind boolean
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
SELECT c.queue::text, c.name::text, m.id, m.handler::text,
    coalesce((m.errors -> 0 ->> 'at')::timestamptz, m.last_leased_at), m.attempts, m.max_attempts,
    CASE WHEN m.status = 1 THEN m.held_until END,
    EXISTS (
        SELECT FROM pgqueue_message AS o WHERE o.channel_id = c.id AND o.status = 1 AND o.id <> m.id
    )
FROM (
    SELECT o.id, o.queue, o.name FROM pgqueue_channel AS o
    WHERE o.ordered AND (p_queue IS NULL OR o.queue = p_queue)
    ORDER BY o.queue LIMIT p_most
) AS c
CROSS JOIN LATERAL (
    SELECT o.current_id FROM pgqueue_lane AS o WHERE o.channel_id = c.id ORDER BY o.seq DESC LIMIT 1
) AS l
JOIN pgqueue_message AS m ON m.id = l.current_id AND m.channel_id = c.id
WHERE m.last_leased_at IS NOT NULL
ORDER BY 5, m.id;
$$;
