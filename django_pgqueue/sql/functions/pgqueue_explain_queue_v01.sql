-- Explains which limits of a whole queue hold up a channel now: max_concurrency, the rate, max_share, its share.
-- Leases are counted as pgqueue_queue_allowance counts them, and at no higher cost.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_queue(p_channel pgqueue_channel)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_queue pgqueue_queue;
    v_gate pgqueue_gate;
    v_held record;
    v_open_at timestamptz;
    v_most integer;
    v_weights record;
    v_share integer;
BEGIN
    SELECT q.* INTO v_queue FROM pgqueue_queue AS q WHERE q.name = p_channel.queue AND pgqueue_is_guarded(q);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT g.* INTO v_gate FROM pgqueue_gate AS g WHERE g.queue = p_channel.queue ORDER BY g.seq DESC LIMIT 1;
    SELECT coalesce(sum(h.leased), 0) AS leased, coalesce(sum(h.expired), 0) AS expired, count(*) AS channels,
        coalesce(max(h.leased) FILTER (WHERE h.channel_id = p_channel.id), 0) AS own,
        string_agg(format('%s (%s)', h.name, h.leased), ', ' ORDER BY h.place) FILTER (WHERE h.place <= 5) AS holders,
        jsonb_agg(jsonb_build_object('channel', h.name, 'messages', h.leased) ORDER BY h.place)
            FILTER (WHERE h.place <= 5) AS held_by,
        array_agg(h.channel_id) AS channel_ids
    INTO v_held
    FROM (
        SELECT l.channel_id, coalesce(c.name, '?') AS name, count(*) AS leased,
            count(*) FILTER (WHERE l.lease_expires_at <= v_now) AS expired,
            row_number() OVER (ORDER BY count(*) DESC, c.name) AS place
        FROM pgqueue_queue_leases(v_queue.name,
            CASE WHEN v_gate.seen_at IS NOT DISTINCT FROM v_queue.changed_at THEN v_gate.held END) AS l
        LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
        GROUP BY l.channel_id, c.name
    ) AS h;
    IF v_held.leased >= v_queue.max_concurrency THEN
        RETURN QUERY SELECT 'queue_concurrency',
            format('Queue %s is at its limit: %s of %s messages are leased, by channels %s%s.%s', v_queue.name,
                v_held.leased, v_queue.max_concurrency, v_held.holders,
                CASE WHEN v_held.channels > 5 THEN ' and others' END,
                CASE WHEN v_held.expired > 0 THEN
                    format(' Expired, and waiting for the sweep: %s.', v_held.expired)
                END),
            jsonb_build_object('running', v_held.leased, 'max_concurrency', v_queue.max_concurrency,
                'expired', v_held.expired, 'held_by', v_held.held_by);
    END IF;
    v_open_at := pgqueue_gate_time(v_queue, v_gate);
    IF v_open_at > v_now THEN
        RETURN QUERY SELECT 'queue_rate',
            format('Queue %s may be served once in %s: the next time at %s.', v_queue.name, v_queue.release_interval,
                date_trunc('milliseconds', v_open_at)),
            jsonb_build_object('next_at', v_open_at, 'release_interval', v_queue.release_interval,
                'release_burst', v_queue.release_burst);
    END IF;
    v_most := pgqueue_share_limit(v_queue);
    SELECT w.* INTO v_weights
    FROM pgqueue_line(v_queue.name, v_now) AS n
    CROSS JOIN LATERAL pgqueue_share_weights(v_queue.name, v_held.channel_ids, n.lane_seq, n.fresh_seq) AS w;
    v_share := ceil((v_held.leased + 1) * p_channel.weight / v_weights.total::double precision);
    IF v_held.own >= v_most THEN
        RETURN QUERY SELECT 'max_share',
            format('Channel %s may hold %s messages at a time, %s of the slots of queue %s: it holds %s.',
                p_channel.name, v_most, v_queue.max_share::real, v_queue.name, v_held.own),
            jsonb_build_object('running', v_held.own, 'most', v_most, 'max_share', v_queue.max_share::real);
    ELSIF v_queue.fairness = 'share' AND v_held.own >= v_share AND v_weights.waiting > p_channel.weight THEN
        RETURN QUERY SELECT 'share',
            format('Channel %s holds %s of the %s leases of queue %s, which is its share: it waits while channels '
                'below their share wait.',
                p_channel.name, v_held.own, v_held.leased, v_queue.name),
            jsonb_build_object('running', v_held.own, 'share', v_share, 'leased', v_held.leased);
    END IF;
END;
$$;
