-- Lists the breakers of handlers, and the open breakers of single channels, at most p_most: those that have been open
-- for the longest first.
-- Returns state: closed, open, or trying (the pause is over, and one message at a time may try); until: when it may;
--   waiting: messages that wait for it, 1,000 at most; openings: how often it has opened. The row of a handler with a
--   breaker for each channel sums up the openings of all of them; its queue and channel are NULL, as for each handler.
-- Locks: none.
CREATE FUNCTION pgqueue_breakers(p_most integer DEFAULT 1000)
RETURNS TABLE (
    id bigint,
    handler text,
    per text,
    queue text,
    channel text,
    state text,
    opened_at timestamptz,
    until timestamptz,
    waiting integer,
    openings bigint
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
SELECT b.id, b.breaker_handler::text, b.per::text, c.queue::text, c.name::text,
    CASE WHEN u.until IS NULL THEN 'closed' WHEN u.until > clock_timestamp() THEN 'open' ELSE 'trying' END,
    CASE WHEN u.until IS NOT NULL THEN coalesce(b.opened_at, u.until - b.breaker_pause) END, u.until,
    (SELECT count(*)::integer FROM (
        SELECT FROM pgqueue_message AS m WHERE m.waits_for = b.id LIMIT 1000) AS w),
    b.openings + (SELECT coalesce(sum(o.openings), 0) FROM pgqueue_limit AS o WHERE o.parent_id = b.id)::bigint
FROM pgqueue_limit AS b
LEFT JOIN pgqueue_channel AS c ON c.id = b.channel_id
CROSS JOIN LATERAL pgqueue_breaker_until(b, coalesce(b.channel_id, 0)) AS u (until)
WHERE b.breaker_failures IS NOT NULL AND (b.parent_id IS NULL OR b.open_until IS NOT NULL AND u.until IS NOT NULL)
ORDER BY u.until IS NULL, b.opened_at, b.breaker_handler
LIMIT p_most;
$$;
