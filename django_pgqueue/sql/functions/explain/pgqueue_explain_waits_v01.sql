-- Explains what a message waits for outside of the line: its order key, shared limits, its handler's breaker.
-- p_all: the message is the first of its channel that waits so. Then the sentences count all of these, and only the one
-- limit that they wait for is explained. Counts stop at 1,000; places cost as much as in pgqueue_limit_room.
-- Returns label: the words for a limit within a sentence; see pgqueue_explain_message for the others. No row: it waits
--   for nothing of these.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_waits(p_message pgqueue_message, p_all boolean)
RETURNS TABLE (label text, code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_cost integer := coalesce(p_message.cost, 1);
    v_count bigint;
    v_some text;
    v_awaited text := 'a shared limit that was dropped';
    v_name text;
    v_limit record;
    v_label text;
    v_room record;
    v_held record;
    v_next_at timestamptz;
BEGIN
    IF p_message.waits_for IS NOT NULL THEN
        -- The bound is a value, so that the index has it.
        SELECT count(*) INTO v_count FROM (
            SELECT FROM pgqueue_message AS m
            WHERE m.waits_for = p_message.waits_for AND m.channel_id = p_message.channel_id
                AND (-m.priority, m.dequeue_at, m.id) < (
                    CASE WHEN p_all THEN 32767::smallint ELSE -p_message.priority END,
                    CASE WHEN p_all THEN 'infinity' ELSE p_message.dequeue_at END, p_message.id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1000) AS m;
    END IF;
    v_some := CASE WHEN v_count = 1000 THEN 'at least ' ELSE '' END || v_count;
    -- A message may be noted before it is the first, and the first of an ordered channel needs no note.
    RETURN QUERY
    SELECT NULL, CASE WHEN f.id <> p_message.id OR n.noted THEN 'waits_for_order_key' ELSE 'order_key_unreleased' END,
        CASE WHEN p_all THEN format('Messages of it that wait for their order key: %s. The first is message %s. ',
            v_some, p_message.id) ELSE '' END
        || CASE
            WHEN f.id <> p_message.id THEN format('It waits for message %s of the order key %s, which is %s%s.', f.id,
                p_message.order_key,
                CASE f.status WHEN 1 THEN 'ready' WHEN 2 THEN 'leased'
                    ELSE 'scheduled' || coalesce(' for ' || date_trunc('second', b.due_at), '') END,
                CASE WHEN f.status <> 2 THEN ', after its attempt ' || b.attempt::text || ' failed with ' || b.type END)
            ELSE format('It is the next message of the order key %s', p_message.order_key) || CASE
                WHEN n.noted THEN ': the next tick makes it ready, or a dequeue that finds none.'
                ELSE ', and no settlement makes it ready: the one before it was deleted by hand. pgqueue_repair() '
                    'makes it ready.' END
        END,
        jsonb_build_object('order_key', p_message.order_key, 'message', f.id, 'dequeue_at', b.due_at,
            'attempt', b.attempt, 'type', b.type)
        || CASE WHEN p_all THEN jsonb_build_object('first', p_message.id, 'messages', v_count) ELSE '{}' END
    FROM pgqueue_first_of_key(p_message.channel_id, p_message.order_key) AS f
    CROSS JOIN LATERAL (
        SELECT CASE WHEN m.status = 3 AND m.waits_for IS NULL THEN m.dequeue_at END AS due_at,
            m.errors -> -1 -> 'attempt' AS attempt, left(m.errors -> -1 ->> 'type', 200) AS type
        FROM pgqueue_message AS m WHERE m.id = f.id
    ) AS b
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM pgqueue_order_note AS o
        WHERE o.channel_id = p_message.channel_id AND o.order_key = p_message.order_key) AS noted) AS n
    WHERE p_message.waits_for = -1 OR NOT p_all AND f.id <> p_message.id
        AND NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = p_message.channel_id AND c.ordered);
    FOR v_limit IN
        -- The row of a channel goes by the settings of its limit; a limit for each channel by its pause alone.
        SELECT s.*, l.id AS row_id, coalesce('the breaker of handler ' || l.breaker_handler,
            (SELECT format('the shared limit %s of channel %s', s.name, coalesce(c.queue || '/' || c.name, '?'))
            FROM (VALUES (l.channel_id)) AS v (id) LEFT JOIN pgqueue_channel AS c ON c.id = v.id
            WHERE l.parent_id IS NOT NULL),
            'the handler ' || h.handler, 'the shared limit ' || l.name) AS label
        FROM pgqueue_limit AS l
        JOIN pgqueue_limit AS s
            ON s.id = CASE WHEN l.breaker_failures IS NULL THEN coalesce(l.parent_id, l.id) ELSE l.id END
        LEFT JOIN pgqueue_limit_handler AS h
            ON h.limit_id = l.id AND NOT h.breaker AND pgqueue_handler_limit(h.handler) = l.name
        WHERE l.id = p_message.waits_for OR NOT p_all AND l.id = ANY (ARRAY(
            SELECT coalesce(pgqueue_own_limit(n.id, p_message.channel_id), n.id)
            FROM (
                SELECT unnest(p_message.limits)
                UNION
                SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = p_message.handler AND NOT h.breaker
            ) AS n (id)))
        ORDER BY l.id
    LOOP
        IF v_limit.row_id = p_message.waits_for THEN
            v_awaited := v_limit.label;
            v_name := v_limit.name;
        END IF;
        CONTINUE WHEN v_limit.breaker_failures IS NOT NULL;
        SELECT r.places, r.cost, r.tokens, r.place_floor INTO v_room
        FROM pgqueue_limit AS l CROSS JOIN LATERAL pgqueue_limit_room(l, v_now) AS r
        WHERE l.id = v_limit.row_id;
        v_next_at := v_now + pgqueue_token_time(
            v_limit.release_interval, (least(v_cost, v_limit.release_burst) - v_room.tokens)::numeric);
        v_label := 'T' || substr(v_limit.label, 2);
        IF v_limit.paused_at IS NOT NULL THEN
            code := 'shared_limit_paused';
            sentence := format('%s is paused since %s%s.%s', v_label, date_trunc('second', v_limit.paused_at),
                ' until ' || date_trunc('second', v_limit.paused_until),
                ' Reason: ' || left(nullif(v_limit.pause_reason, ''), 500));
            facts := jsonb_build_object('limit', v_limit.name, 'paused_at', v_limit.paused_at,
                'until', v_limit.paused_until, 'reason', v_limit.pause_reason);
        ELSIF v_room.places < 1 OR v_room.cost < least(v_cost, v_limit.max_cost) THEN
            SELECT coalesce(sum(h.expired), 0) AS expired,
                string_agg(format('%s/%s (%s)', h.queue, h.name, h.messages), ', ' ORDER BY h.place)
                    FILTER (WHERE h.place <= 5) || CASE WHEN count(*) > 5 THEN ' and others' ELSE '' END AS holders,
                jsonb_agg(jsonb_build_object('queue', h.queue, 'channel', h.name, 'messages', h.messages)
                    ORDER BY h.place) FILTER (WHERE h.place <= 5) AS held_by
            INTO v_held
            FROM (
                SELECT coalesce(c.queue, '?') AS queue, coalesce(c.name, '?') AS name, count(*) AS messages,
                    count(*) FILTER (WHERE m.lease_expires_at <= v_now) AS expired,
                    row_number() OVER (ORDER BY count(*) DESC, c.queue, c.name) AS place
                FROM pgqueue_place AS n
                JOIN pgqueue_message AS m ON m.id = n.message_id AND m.leased_at = n.placed_at
                LEFT JOIN pgqueue_channel AS c ON c.id = m.channel_id
                WHERE n.limit_id = v_limit.row_id AND n.placed_at >= v_room.place_floor
                GROUP BY c.queue, c.name
            ) AS h;
            code := 'shared_limit_full';
            sentence := format('%s has no room: %s%s.%s', v_label, concat_ws(', ',
                (v_limit.max_concurrency - v_room.places) || ' of ' || v_limit.max_concurrency || ' places are taken',
                (v_limit.max_cost - v_room.cost) || ' of max_cost ' || v_limit.max_cost || ' is in use'),
                ', held by ' || v_held.holders,
                ' Expired, and waiting for the sweep: ' || nullif(v_held.expired, 0) || '.');
            facts := jsonb_build_object('limit', v_limit.name, 'max_concurrency', v_limit.max_concurrency,
                'free_places', v_room.places, 'max_cost', v_limit.max_cost, 'free_cost', v_room.cost,
                'expired', v_held.expired, 'held_by', v_held.held_by);
        ELSIF v_next_at > v_now THEN
            code := 'shared_limit_rate';
            sentence := format('%s has no token for it before %s.', v_label, date_trunc('milliseconds', v_next_at));
            facts := jsonb_build_object('limit', v_limit.name, 'tokens', v_room.tokens, 'next_at', v_next_at);
        ELSE
            CONTINUE;
        END IF;
        RETURN NEXT;
    END LOOP;
    RETURN QUERY
    SELECT NULL, CASE WHEN u.until > v_now THEN 'breaker_open' ELSE 'breaker_tries' END,
        format('The breaker of handler %s is %s, after %s failures in a row within %s.%s', b.breaker_handler,
            CASE WHEN u.until > v_now THEN 'open until ' || date_trunc('second', u.until)
                ELSE 'open, and one message at a time may try' END,
            b.breaker_failures, b.breaker_within,
            CASE WHEN b.per = 'channel' THEN ' It is one for each channel.' END),
        jsonb_build_object('handler', b.breaker_handler, 'per', b.per, 'until', u.until,
            'opened_at', b.opened_at, 'failures', b.breaker_failures, 'within', b.breaker_within)
    FROM pgqueue_limit_handler AS h
    JOIN LATERAL (
        (SELECT c.* FROM pgqueue_limit AS c WHERE c.parent_id = h.limit_id AND c.channel_id = p_message.channel_id)
        UNION ALL
        (SELECT l.* FROM pgqueue_limit AS l WHERE l.id = h.limit_id)
        LIMIT 1
    ) AS b ON NOT p_all OR p_message.waits_for IN (b.id, h.limit_id)
    CROSS JOIN LATERAL pgqueue_breaker_until(
        b, CASE WHEN b.per = 'channel' THEN p_message.channel_id ELSE 0 END) AS u (until)
    WHERE h.handler = p_message.handler AND h.breaker AND u.until IS NOT NULL;
    IF p_message.waits_for >= 0 THEN
        RETURN QUERY SELECT v_awaited, 'waits_for_limit',
            CASE WHEN p_all THEN format('Messages of it that wait for %s: %s.', v_awaited, v_some)
                ELSE format('It waits for %s. Messages of its channel before it there: %s.', v_awaited, v_some) END,
            jsonb_build_object('limit', v_name, CASE WHEN p_all THEN 'messages' ELSE 'messages_before' END, v_count);
    END IF;
END;
$$;
