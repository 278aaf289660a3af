-- Estimates where a ready message, or the channel itself (p_id NULL), stands in the line.
-- p_blocked: another obstacle is known to hold the channel up. The estimate takes the weights of the other channels as
-- 1, and counts to 1,000.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_place(p_channel_id bigint, p_id bigint, p_blocked boolean)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_most CONSTANT integer := 1000;
    v_lane record;
    v_until record;
    v_messages integer;
    v_channels integer;
    v_others integer;
    v_place integer;
    v_some text;
BEGIN
    SELECT l.queue, l.seq, l.fresh, l.parked_until IS NULL AS in_line, l.floor_rank, l.floor_at, l.floor_id INTO v_lane
    FROM pgqueue_lane AS l
    WHERE l.channel_id = p_channel_id
    ORDER BY l.seq DESC LIMIT 1;
    IF NOT FOUND OR v_lane.floor_at = 'infinity' THEN
        v_lane.floor_rank := -32768;
        v_lane.floor_at := '-infinity';
        v_lane.floor_id := 0;
    END IF;
    -- Counts all ready messages, or those before the message. Both bounds are values, so that the index has them.
    SELECT coalesce(max(-m.priority), 32767)::smallint AS rank, coalesce(max(m.dequeue_at), 'infinity') AS due_at,
        coalesce(max(m.id), 9223372036854775807) AS id
    INTO v_until
    FROM pgqueue_message AS m
    WHERE m.id = p_id;
    SELECT count(*) INTO v_messages
    FROM (
        SELECT FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            AND (-m.priority, m.dequeue_at, m.id) < (v_until.rank, v_until.due_at, v_until.id)
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT v_most
    ) AS n;
    -- Fresh lanes stand before all others.
    SELECT count(*) FILTER (WHERE (NOT n.fresh, n.seq) < (NOT v_lane.fresh, v_lane.seq)),
        count(*) FILTER (WHERE n.seq <> v_lane.seq)
    INTO v_channels, v_others
    FROM pgqueue_line(v_lane.queue, NULL) AS o
    CROSS JOIN LATERAL (
        (SELECT l.seq, l.fresh FROM pgqueue_lane AS l
        WHERE l.queue = v_lane.queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= o.fresh_head
        ORDER BY l.seq LIMIT v_most)
        UNION ALL
        (SELECT l.seq, l.fresh FROM pgqueue_lane AS l
        WHERE l.queue = v_lane.queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= o.head
        ORDER BY l.seq LIMIT v_most)
        LIMIT v_most
    ) AS n;
    v_some := CASE WHEN v_messages = v_most THEN 'at least ' ELSE '' END || v_messages;
    IF v_lane.in_line THEN
        SELECT v_messages + v_channels + v_messages / c.weight * v_others + 1 INTO v_place
        FROM pgqueue_channel AS c
        WHERE c.id = p_channel_id;
    ELSIF NOT p_blocked THEN
        RETURN QUERY SELECT CASE WHEN v_lane.floor_at = '-infinity' THEN 'arriving' ELSE 'parked' END,
            CASE WHEN v_lane.floor_at = '-infinity'
                THEN 'The line does not know of it yet: the next dequeue or tick takes it in.'
                ELSE 'It had no room when the line last came to it, and has room now: it comes back by itself.' END,
            '{}'::jsonb;
        RETURN QUERY SELECT n.* FROM pgqueue_explain_maintenance() AS n;
    END IF;
    RETURN QUERY SELECT CASE WHEN v_lane.in_line THEN 'in_line' ELSE 'in_channel' END,
        CASE
            WHEN p_id IS NULL THEN format('Ready messages: %s.', v_some)
            WHEN v_place = 1 THEN 'It is next in line.'
            WHEN v_lane.in_line THEN format(
                'It waits in line, about at place %s: %s messages of its channel go before it.', v_place, v_some)
            ELSE format('Messages of its channel that go before it: %s.', v_some)
        END || CASE
            WHEN v_lane.in_line AND v_place > 1 THEN format(' Channels that stand before this one: %s%s.',
                CASE WHEN v_channels = v_most THEN 'at least ' END, v_channels)
            ELSE ''
        END,
        jsonb_build_object('messages_before', CASE WHEN p_id IS NOT NULL THEN v_messages END,
            'ready', CASE WHEN p_id IS NULL THEN v_messages END, 'channels_before', v_channels,
            'place', CASE WHEN p_id IS NOT NULL THEN v_place END);
END;
$$;
