-- Returns whether a channel is served within limits: order, max_concurrency, a rate, or a pause. A released channel
-- drains without limits, but in order.
-- Channels without limits may be shared by all dequeues. The function is IMMUTABLE, so that it becomes a part of the
-- statement.
-- Locks: none.
CREATE FUNCTION pgqueue_is_limited(p_channel pgqueue_channel)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
AS $$
SELECT p_channel.ordered
    OR p_channel.released_at IS NULL
        AND (p_channel.max_concurrency IS NOT NULL OR p_channel.release_interval IS NOT NULL
            OR p_channel.paused_at IS NOT NULL);
$$;
