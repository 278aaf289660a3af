-- Returns the words for a shared limit within a sentence: the shared limit stripe, the shared limit mails of channel
-- default/acme, the handler mail.send (a pause of it is a limit of its own), or the breaker of handler mail.send.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_label(p_limit_id bigint)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN coalesce((
        SELECT CASE
            WHEN l.breaker_failures IS NOT NULL THEN 'the breaker of handler ' || l.breaker_handler
            WHEN l.parent_id IS NOT NULL THEN (
                SELECT format('the shared limit %s of channel %s', s.name, coalesce(c.queue || '/' || c.name, '?'))
                FROM pgqueue_limit AS s LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id WHERE s.id = l.parent_id)
            ELSE coalesce('the handler ' || h.handler, 'the shared limit ' || l.name)
        END
        FROM pgqueue_limit AS l
        LEFT JOIN pgqueue_limit_handler AS h
            ON h.limit_id = l.id AND NOT h.breaker AND pgqueue_handler_limit(h.handler) = l.name
        WHERE l.id = p_limit_id), 'a shared limit that was dropped');
END;
$$;
