-- Returns the id of the breaker of one channel; makes its row when there is none: a channel has none until it opens.
-- p_breaker: the row of the handler's breaker, which the caller has locked, so that no insert waits for another one.
-- Locks: none.
CREATE FUNCTION pgqueue_breaker_of_channel(p_breaker pgqueue_limit, p_channel_id bigint)
RETURNS bigint
LANGUAGE sql
AS $$
INSERT INTO pgqueue_limit (name, breaker_handler, breaker_failures, breaker_within, breaker_pause, breaker_per,
    breaker_id, channel_id)
VALUES (format('%s, channel %s', p_breaker.name, p_channel_id), p_breaker.breaker_handler, p_breaker.breaker_failures,
    p_breaker.breaker_within, p_breaker.breaker_pause, p_breaker.breaker_per, p_breaker.id, p_channel_id)
ON CONFLICT DO NOTHING;
SELECT c.id FROM pgqueue_limit AS c WHERE c.breaker_id = p_breaker.id AND c.channel_id = p_channel_id;
$$;
