-- Returns whether the line of a queue may have a channel that the caller could not visit, because another transaction
-- holds its lane, or folds its arrival.
-- p_lane_seq, p_fresh_seq: where the line begins; p_seen: the channels of the lanes that the caller has visited, and
-- holds. Arrivals that came since the caller folded count, too.
-- Locks: none. The callers pin the plans.
CREATE FUNCTION pgqueue_line_is_held(p_queue text, p_lane_seq bigint, p_fresh_seq bigint, p_seen bigint[])
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgqueue_lane AS l
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= p_fresh_seq
            AND l.channel_id <> ALL (p_seen))
        OR EXISTS (
            SELECT FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= p_lane_seq
                AND l.channel_id <> ALL (p_seen))
        OR EXISTS (
            SELECT FROM pgqueue_line(p_queue, NULL) AS n
            CROSS JOIN unnest(ARRAY[false, true]) AS u (lazy)
            JOIN pgqueue_arrival AS a ON a.queue = p_queue AND a.lazy = u.lazy AND a.xid >= n.arrival_xid
            WHERE a.floor_id IS NOT NULL AND a.channel_id <> ALL (p_seen));
END;
$$;
