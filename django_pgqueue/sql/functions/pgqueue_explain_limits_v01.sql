-- Explains which limits of a channel are reached now, until when, and by which workers.
-- Leases are counted as pgqueue_allowance counts them, and at no higher cost.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_limits(p_channel pgqueue_channel)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_lane record;
    v_next_at timestamptz;
    v_cost integer;
BEGIN
    SELECT l.next_at, l.debt, l.lease_floor, l.floor_rank, l.floor_at, l.floor_id INTO v_lane FROM pgqueue_lane AS l
    WHERE l.channel_id = p_channel.id
    ORDER BY l.seq DESC LIMIT 1;
    IF p_channel.max_concurrency IS NOT NULL THEN
        RETURN QUERY
        SELECT 'concurrency',
            format('Channel %s is at its limit: %s of %s messages are leased, held by %s%s.%s', p_channel.name,
                g.running, p_channel.max_concurrency, g.holders, CASE WHEN g.workers > 5 THEN ' and others' END,
                CASE WHEN g.expired > 0 THEN format(' Expired, and waiting for the sweep: %s.', g.expired) END),
            jsonb_build_object('running', g.running, 'max_concurrency', p_channel.max_concurrency, 'expired', g.expired,
                'held_by', g.held_by)
        FROM (
            SELECT sum(h.running) AS running, sum(h.expired) AS expired, count(*) AS workers,
                string_agg(format('%s (%s)', h.worker, h.running), ', ' ORDER BY h.place)
                    FILTER (WHERE h.place <= 5) AS holders,
                jsonb_agg(jsonb_build_object('worker', h.worker, 'messages', h.running, 'leased_at', h.leased_at)
                    ORDER BY h.place) FILTER (WHERE h.place <= 5) AS held_by
            FROM (
                SELECT coalesce(m.worker, '?') AS worker, count(*) AS running, min(m.leased_at) AS leased_at,
                    count(*) FILTER (WHERE m.lease_expires_at <= v_now) AS expired,
                    row_number() OVER (ORDER BY count(*) DESC, coalesce(m.worker, '?')) AS place
                FROM pgqueue_message AS m
                WHERE m.channel_id = p_channel.id AND m.status = 2
                    -- After the clock was set back, all leases are counted.
                    AND m.leased_at >= CASE WHEN v_lane.lease_floor <= v_now THEN v_lane.lease_floor
                        ELSE '-infinity' END
                GROUP BY coalesce(m.worker, '?')
            ) AS h
        ) AS g
        WHERE g.running >= p_channel.max_concurrency;
    END IF;
    IF p_channel.release_interval IS NOT NULL AND v_lane.next_at > v_now THEN
        v_cost := coalesce((
            SELECT m.cost FROM pgqueue_message AS m
            WHERE m.channel_id = p_channel.id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1), 1);
        v_next_at := pgqueue_bucket_time(v_lane.next_at, v_lane.debt, p_channel.release_interval,
            p_channel.release_burst, v_now) - pgqueue_token_time(p_channel.release_interval,
            p_channel.release_burst - least(v_cost, p_channel.release_burst));
        IF v_next_at > v_now THEN
            RETURN QUERY SELECT 'rate',
                format('Channel %s may be served once in %s%s: the next time at %s.', p_channel.name,
                    p_channel.release_interval,
                    CASE WHEN v_cost > 1 THEN format(' for a cost of 1, and its next message costs %s', v_cost) END,
                    date_trunc('milliseconds', v_next_at)),
                jsonb_build_object('next_at', v_next_at, 'release_interval', p_channel.release_interval,
                    'release_burst', p_channel.release_burst, 'cost', v_cost);
        END IF;
    END IF;
END;
$$;
