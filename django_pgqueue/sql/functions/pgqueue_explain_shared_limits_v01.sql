-- Explains which shared limits of a message have no room for it now, until when, and which channels hold their places.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_shared_limits(p_message pgqueue_message)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_ahead bigint;
BEGIN
    RETURN QUERY
    SELECT r.code, r.sentence, r.facts
    FROM (
        SELECT unnest(p_message.limits) AS id
        UNION
        SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = p_message.handler AND NOT h.breaker
    ) AS n
    JOIN pgqueue_limit AS l ON l.id = coalesce(pgqueue_own_limit(n.id, p_message.channel_id), n.id)
    CROSS JOIN LATERAL pgqueue_explain_room(l, coalesce(p_message.cost, 1)) AS r
    ORDER BY l.id;
    RETURN QUERY SELECT b.code, b.sentence, b.facts
        FROM pgqueue_explain_breaker(p_message.handler, p_message.channel_id) AS b;
    IF p_message.waits_for >= 0 THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.waits_for = p_message.waits_for AND m.channel_id = p_message.channel_id
                AND (-m.priority, m.dequeue_at, m.id) < (-p_message.priority, p_message.dequeue_at, p_message.id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1000) AS m;
        RETURN QUERY SELECT 'waits_for_limit',
            format('It waits for %s. Messages of its channel before it there: %s%s.',
                pgqueue_limit_label(p_message.waits_for), CASE WHEN v_ahead = 1000 THEN 'at least ' END, v_ahead),
            jsonb_build_object('limit', (SELECT coalesce(s.name, l.name) FROM pgqueue_limit AS l
                LEFT JOIN pgqueue_limit AS s ON s.id = l.parent_id AND l.breaker_failures IS NULL
                WHERE l.id = p_message.waits_for),
                'messages_before', v_ahead);
    END IF;
END;
$$;
