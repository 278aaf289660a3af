-- Explains why a shared limit has no room now for a message of this cost: it is paused, which channels hold its places,
-- or when its rate has the tokens.
-- Returns one row, with the first of these reasons; none when the limit has room. Places are counted as
--   pgqueue_limit_room counts them, and at no higher cost.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_room(p_limit pgqueue_limit, p_cost integer)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_label text := 'T' || substr(pgqueue_limit_label(p_limit.id), 2);
    v_limit pgqueue_limit;
    v_room record;
    v_held record;
    v_next_at timestamptz;
BEGIN
    -- The row of a channel goes by the settings of its limit; a limit for each channel by its pause alone.
    SELECT l.* INTO v_limit FROM pgqueue_limit AS l WHERE l.id = coalesce(p_limit.parent_id, p_limit.id);
    IF v_limit.paused_at IS NOT NULL THEN
        RETURN QUERY SELECT 'shared_limit_paused',
            format('%s is paused since %s%s.%s', v_label, date_trunc('second', v_limit.paused_at),
                ' until ' || date_trunc('second', v_limit.paused_until),
                ' Reason: ' || left(nullif(v_limit.pause_reason, ''), 500)),
            jsonb_build_object('limit', v_limit.name, 'paused_at', v_limit.paused_at,
                'until', v_limit.paused_until, 'reason', v_limit.pause_reason);
        RETURN;
    END IF;
    SELECT r.places, r.cost, r.tokens, r.place_floor INTO v_room FROM pgqueue_limit_room(p_limit, v_now) AS r;
    v_next_at := v_now + pgqueue_token_time(
        v_limit.release_interval, (least(p_cost, v_limit.release_burst) - v_room.tokens)::numeric);
    IF v_room.places < 1 OR v_room.cost < least(p_cost, v_limit.max_cost) THEN
        SELECT coalesce(sum(h.expired), 0) AS expired, count(*) AS channels,
            string_agg(format('%s/%s (%s)', h.queue, h.name, h.messages), ', ' ORDER BY h.place)
                FILTER (WHERE h.place <= 5) AS holders,
            jsonb_agg(jsonb_build_object('queue', h.queue, 'channel', h.name, 'messages', h.messages) ORDER BY h.place)
                FILTER (WHERE h.place <= 5) AS held_by
        INTO v_held
        FROM (
            SELECT coalesce(c.queue, '?') AS queue, coalesce(c.name, '?') AS name, count(*) AS messages,
                count(*) FILTER (WHERE m.lease_expires_at <= v_now) AS expired,
                row_number() OVER (ORDER BY count(*) DESC, c.queue, c.name) AS place
            FROM pgqueue_place AS n
            JOIN pgqueue_message AS m ON m.id = n.message_id AND m.leased_at = n.placed_at
            LEFT JOIN pgqueue_channel AS c ON c.id = m.channel_id
            WHERE n.limit_id = p_limit.id AND n.placed_at >= v_room.place_floor
            GROUP BY c.queue, c.name
        ) AS h;
        RETURN QUERY SELECT 'shared_limit_full',
            format('%s has no room: %s%s%s.%s', v_label, concat_ws(', ',
                (v_limit.max_concurrency - v_room.places) || ' of ' || v_limit.max_concurrency || ' places are taken',
                (v_limit.max_cost - v_room.cost) || ' of max_cost ' || v_limit.max_cost || ' is in use'),
                ', held by ' || v_held.holders, CASE WHEN v_held.channels > 5 THEN ' and others' END,
                CASE WHEN v_held.expired > 0 THEN format(' Expired, and waiting for the sweep: %s.', v_held.expired)
                END),
            jsonb_build_object('limit', v_limit.name, 'max_concurrency', v_limit.max_concurrency,
                'free_places', v_room.places, 'max_cost', v_limit.max_cost, 'free_cost', v_room.cost,
                'expired', v_held.expired, 'held_by', v_held.held_by);
    ELSIF v_next_at > v_now THEN
        RETURN QUERY SELECT 'shared_limit_rate',
            format('%s has no token for it before %s.', v_label, date_trunc('milliseconds', v_next_at)),
            jsonb_build_object('limit', v_limit.name, 'tokens', v_room.tokens, 'next_at', v_next_at);
    END IF;
END;
$$;
