-- Sums the weights by which the leases of a queue are shared.
-- p_holders: the channels that hold leases, once for each lease; p_lane_seq, p_fresh_seq: where the line begins.
-- Returns waiting: of the first 100 lanes of the line, and of 100 arrivals; total: of these and of the holders, each
--   channel once.
-- Locks: none.
CREATE FUNCTION pgqueue_share_weights(
    p_queue text, p_holders bigint[], p_lane_seq bigint, p_fresh_seq bigint, OUT waiting bigint, OUT total bigint
)
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    SELECT greatest(sum(c.weight) FILTER (WHERE n.waits), 1), greatest(sum(c.weight), 1) INTO waiting, total
    FROM (
        SELECT u.channel_id, bool_or(u.waits) AS waits
        FROM (
            (SELECT l.channel_id, true AS waits FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= p_fresh_seq
            ORDER BY l.seq LIMIT 100)
            UNION ALL
            (SELECT l.channel_id, true FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= p_lane_seq
            ORDER BY l.seq LIMIT 100)
            UNION ALL
            -- Another transaction folds them at this moment: the channels wait, too.
            (SELECT a.channel_id, true FROM pgqueue_line(p_queue, NULL) AS f
            CROSS JOIN unnest(ARRAY[false, true]) AS y (lazy)
            JOIN pgqueue_arrival AS a ON a.queue = p_queue AND a.lazy = y.lazy AND a.xid >= f.arrival_xid
            WHERE a.floor_id IS NOT NULL LIMIT 100)
            UNION ALL
            SELECT h.channel_id, false FROM unnest(p_holders) AS h (channel_id)
        ) AS u
        GROUP BY u.channel_id
    ) AS n
    JOIN pgqueue_channel AS c ON c.id = n.channel_id;
END;
$$;
