-- Explains what messages of a channel wait for outside of the line: shared limits, paused handlers, open breakers,
-- messages before them of their order keys, a worker that knows their handler, and their next attempt.
-- Returns no row when none waits so. It looks at 1,000 limits, and counts 1,000 messages of each; of the scheduled
--   messages it looks at 1,000.
-- It names the type of an error alone: users who may see no errors may see the page of a channel.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_waiting(p_channel_id bigint)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_most CONSTANT integer := 1000;
    v_limit record;
    v_first pgqueue_message;
    v_count integer;
BEGIN
    FOR v_limit IN
        SELECT w.id, f.cost FROM (
            SELECT w.id FROM pgqueue_waiting_limits(0, v_most) AS w (id)
            UNION
            SELECT l.id FROM pgqueue_limit AS l WHERE l.channel_id = p_channel_id
        ) AS w
        CROSS JOIN LATERAL (
            SELECT m.cost FROM pgqueue_message AS m
            WHERE m.waits_for = w.id AND m.channel_id = p_channel_id
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1
        ) AS f
    LOOP
        RETURN QUERY SELECT r.code, r.sentence, r.facts
            FROM pgqueue_limit AS l CROSS JOIN LATERAL pgqueue_explain_room(l, coalesce(v_limit.cost, 1)) AS r
            WHERE l.id = v_limit.id AND l.breaker_failures IS NULL;
        RETURN QUERY SELECT b.code, b.sentence, b.facts
            FROM pgqueue_limit AS l
            CROSS JOIN LATERAL pgqueue_explain_breaker(l.breaker_handler, p_channel_id) AS b
            WHERE l.id = v_limit.id AND l.breaker_failures IS NOT NULL;
        SELECT count(*) INTO v_count FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.waits_for = v_limit.id AND m.channel_id = p_channel_id LIMIT v_most) AS m;
        RETURN QUERY SELECT 'waits_for_limit',
            format('Messages of it that wait for %s: %s%s.', pgqueue_limit_label(v_limit.id),
                CASE WHEN v_count = v_most THEN 'at least ' END, v_count),
            jsonb_build_object('limit', (SELECT coalesce(s.name, l.name) FROM pgqueue_limit AS l
                LEFT JOIN pgqueue_limit AS s ON s.id = l.parent_id AND l.breaker_failures IS NULL
                WHERE l.id = v_limit.id),
                'messages', v_count);
    END LOOP;
    SELECT m.* INTO v_first FROM pgqueue_message AS m
    WHERE m.waits_for = -1 AND m.channel_id = p_channel_id
    ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1;
    IF FOUND THEN
        SELECT count(*) INTO v_count FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.waits_for = -1 AND m.channel_id = p_channel_id LIMIT v_most) AS m;
        RETURN QUERY SELECT k.code,
            format('Messages of it that wait for their order key: %s%s. The first is message %s. %s',
                CASE WHEN v_count = v_most THEN 'at least ' END, v_count, v_first.id, k.sentence),
            k.facts || jsonb_build_object('first', v_first.id, 'messages', v_count)
        FROM pgqueue_explain_order_key(v_first) AS k;
    END IF;
    RETURN QUERY
    SELECT CASE WHEN n.is_unknown THEN 'unknown_handler' ELSE 'failed_before' END,
        format('Messages of it that %s: %s%s. The first is message %s: %s.',
            CASE WHEN n.is_unknown THEN 'wait for a worker that knows their handler'
                ELSE 'failed and wait for their next attempt' END,
            CASE WHEN n.seen = v_most THEN 'at least ' END, n.messages, n.id,
            CASE WHEN n.is_unknown THEN m.handler ELSE left(m.errors -> -1 ->> 'type', 200) END),
        jsonb_build_object('message', n.id, 'handler', m.handler, 'messages', n.messages)
    FROM (
        SELECT o.is_unknown, count(*) AS messages, (array_agg(o.id ORDER BY o.dequeue_at, o.id))[1] AS id,
            max(o.seen) AS seen
        FROM (
            SELECT s.id, s.dequeue_at, s.waits_for, count(*) OVER () AS seen, s.error ? 'attempt' AS has_failed,
                coalesce(s.error ->> 'type' LIKE '%UnknownHandler', false) AS is_unknown
            FROM (
                SELECT m.id, m.dequeue_at, m.waits_for, m.errors -> -1 AS error FROM pgqueue_message AS m
                WHERE m.channel_id = p_channel_id AND m.status = 3 ORDER BY m.dequeue_at LIMIT v_most) AS s
        ) AS o
        WHERE o.waits_for IS NULL AND (o.is_unknown OR o.has_failed)
        GROUP BY o.is_unknown
    ) AS n
    JOIN pgqueue_message AS m ON m.id = n.id
    ORDER BY n.is_unknown DESC;
END;
$$;
