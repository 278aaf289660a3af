-- Explains that the breaker of a message's handler is open, until when, and why.
-- Returns no row when the handler has no breaker, or a closed one.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_breaker(p_handler text, p_channel_id bigint)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE sql
STABLE
AS $$
SELECT CASE WHEN u.until > clock_timestamp() THEN 'breaker_open' ELSE 'breaker_tries' END,
    format('The breaker of handler %s is %s, after %s failures in a row within %s.%s', b.breaker_handler,
        CASE WHEN u.until > clock_timestamp() THEN 'open until ' || date_trunc('second', u.until)
            ELSE 'open, and one message at a time may try' END,
        b.breaker_failures, b.breaker_within, ' It is one for each channel.' || nullif(b.per, 'handler')),
    jsonb_build_object('handler', b.breaker_handler, 'per', b.per, 'until', u.until,
        'opened_at', b.opened_at, 'failures', b.breaker_failures, 'within', b.breaker_within)
FROM pgqueue_limit_handler AS h
JOIN LATERAL (
    (SELECT c.* FROM pgqueue_limit AS c WHERE c.parent_id = h.limit_id AND c.channel_id = p_channel_id)
    UNION ALL
    (SELECT l.* FROM pgqueue_limit AS l WHERE l.id = h.limit_id)
    LIMIT 1
) AS b ON true
CROSS JOIN LATERAL pgqueue_breaker_until(b, CASE WHEN b.per = 'channel' THEN p_channel_id ELSE 0 END)
    AS u (until)
WHERE h.handler = p_handler AND h.breaker AND u.until IS NOT NULL;
$$;
