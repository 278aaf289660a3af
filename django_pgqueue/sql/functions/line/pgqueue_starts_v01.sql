-- Returns where the messages of channels begin that stand in the line or have arrivals, in the order of the line: the
-- lowest floor of each.
-- Rows that other transactions hold at this moment are read as they were before: no ready message of a channel is
-- before its lowest floor. p_lane_seq, p_fresh_seq: where the line begins; p_most: lanes of each kind at most; the
-- first 200 arrivals. The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_starts(p_queue text, p_lane_seq bigint, p_fresh_seq bigint, p_most integer)
RETURNS TABLE (channel_id bigint, rank smallint, at timestamptz, key bigint, seq bigint)
LANGUAGE sql
STABLE
AS $$
-- Reads the first arrivals of the queue.
WITH arrivals AS MATERIALIZED (
    SELECT a.channel_id, a.floor_rank, a.floor_at, a.floor_id
    FROM pgqueue_line(p_queue, NULL) AS f
    CROSS JOIN LATERAL (
        (SELECT n.* FROM pgqueue_arrival AS n WHERE n.queue = p_queue AND NOT n.lazy AND n.xid >= f.arrival_xid
            ORDER BY n.xid LIMIT 200)
        UNION ALL
        (SELECT n.* FROM unnest(f.late_xids) AS x (xid)
        CROSS JOIN LATERAL (
            SELECT o.* FROM pgqueue_arrival AS o WHERE o.queue = p_queue AND o.lazy = false AND o.xid = x.xid
            UNION ALL
            SELECT o.* FROM pgqueue_arrival AS o WHERE o.queue = p_queue AND o.lazy = true AND o.xid = x.xid
        ) AS n
        LIMIT 200)
    ) AS a
)
-- A channel may have both arrivals and a lane: its messages begin at the lower floor, or new messages would overtake
-- older ones.
SELECT DISTINCT ON (s.channel_id) s.channel_id, s.floor_rank, s.floor_at, s.floor_id,
    min(s.seq) OVER (PARTITION BY s.channel_id)
FROM (
    (SELECT l.channel_id, l.floor_rank, l.floor_at, l.floor_id, 0 AS seq FROM pgqueue_lane AS l
    WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= p_fresh_seq ORDER BY l.seq LIMIT p_most)
    UNION ALL
    (SELECT l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.seq FROM pgqueue_lane AS l
    WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= p_lane_seq
    ORDER BY l.seq LIMIT p_most)
    UNION ALL
    SELECT n.channel_id, n.floor_rank, n.floor_at, n.floor_id, NULL FROM arrivals AS n
    UNION ALL
    -- It may have come into the line since this call looked where that begins.
    SELECT n.channel_id, l.floor_rank, l.floor_at, l.floor_id, CASE WHEN l.parked_until IS NULL THEN l.seq END
    FROM arrivals AS n
    CROSS JOIN LATERAL (SELECT o.* FROM pgqueue_lane AS o WHERE o.channel_id = n.channel_id
        ORDER BY o.seq DESC LIMIT 1) AS l
) AS s
ORDER BY s.channel_id, s.floor_rank, s.floor_at, s.floor_id;
$$;
