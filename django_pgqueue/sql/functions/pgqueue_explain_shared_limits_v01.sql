-- Explains which shared limits of a message have no room for it now, until when, and who holds their places.
-- Caller: pgqueue_explain_message.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_shared_limits(p_message pgqueue_message)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_limit record;
    v_ahead bigint;
BEGIN
    FOR v_limit IN
        SELECT l.*, r.places, r.cost AS free_cost, r.tokens,
            v_now + pgqueue_token_time(l.release_interval,
                (least(coalesce(p_message.cost, 1), l.release_burst) - r.tokens)::numeric) AS next_at
        FROM (
            SELECT unnest(p_message.limits) AS id
            UNION
            SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = p_message.handler AND NOT h.breaker
        ) AS n
        JOIN pgqueue_limit AS l ON l.id = n.id
        CROSS JOIN LATERAL pgqueue_limit_room(l, v_now) AS r
        ORDER BY l.id
    LOOP
        IF v_limit.paused_at IS NOT NULL THEN
            RETURN QUERY SELECT 'shared_limit_paused',
                format('The shared limit %s is paused since %s%s.%s', v_limit.name,
                    date_trunc('second', v_limit.paused_at), ' until ' || date_trunc('second', v_limit.paused_until),
                    ' Reason: ' || left(nullif(v_limit.pause_reason, ''), 500)),
                jsonb_build_object('limit', v_limit.name, 'paused_at', v_limit.paused_at,
                    'until', v_limit.paused_until, 'reason', v_limit.pause_reason);
        ELSIF v_limit.places < 1 OR v_limit.free_cost < least(coalesce(p_message.cost, 1), v_limit.max_cost) THEN
            RETURN QUERY SELECT 'shared_limit_full',
                format('The shared limit %s has no room: %s.', v_limit.name, concat_ws(', ',
                    (v_limit.max_concurrency - v_limit.places) || ' of ' || v_limit.max_concurrency
                        || ' places are taken',
                    (v_limit.max_cost - v_limit.free_cost) || ' of max_cost ' || v_limit.max_cost || ' is in use')),
                jsonb_build_object('limit', v_limit.name, 'max_concurrency', v_limit.max_concurrency,
                    'free_places', v_limit.places, 'max_cost', v_limit.max_cost, 'free_cost', v_limit.free_cost);
        ELSIF v_limit.next_at > v_now THEN
            RETURN QUERY SELECT 'shared_limit_rate',
                format('The shared limit %s has no token for it before %s.', v_limit.name,
                    date_trunc('milliseconds', v_limit.next_at)),
                jsonb_build_object('limit', v_limit.name, 'tokens', v_limit.tokens, 'next_at', v_limit.next_at);
        END IF;
    END LOOP;
    RETURN QUERY SELECT b.code, b.sentence, b.facts
        FROM pgqueue_explain_breaker(p_message.handler, p_message.channel_id) AS b;
    IF p_message.waits_for >= 0 THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.waits_for = p_message.waits_for AND m.channel_id = p_message.channel_id
                AND (-m.priority, m.dequeue_at, m.id) < (-p_message.priority, p_message.dequeue_at, p_message.id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1000) AS m;
        RETURN QUERY SELECT 'waits_for_limit',
            format('It waits for the shared limit %s. Messages of its channel before it there: %s%s.', coalesce(
                (SELECT l.name FROM pgqueue_limit AS l WHERE l.id = p_message.waits_for), 'that was dropped'),
                CASE WHEN v_ahead = 1000 THEN 'at least ' END, v_ahead),
            jsonb_build_object('limit', (SELECT l.name FROM pgqueue_limit AS l WHERE l.id = p_message.waits_for),
                'messages_before', v_ahead);
    END IF;
END;
$$;
