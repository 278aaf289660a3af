-- Returns those of the messages that must ask a shared limit or a breaker before they are leased.
-- p_ids: locked by the caller.
-- The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_must_ask(p_ids bigint[])
RETURNS TABLE (id bigint)
LANGUAGE sql
STABLE
AS $$
SELECT m.id FROM pgqueue_message AS m
WHERE m.id = ANY (p_ids)
    AND (
        m.limits IS NOT NULL
        OR EXISTS (SELECT FROM pgqueue_limit_handler AS h WHERE h.handler = m.handler AND NOT h.breaker)
        OR EXISTS (SELECT FROM pgqueue_alert_breaker(m.handler, m.channel_id))
    );
$$;
