-- Takes messages of unlimited channels whose lanes or arrivals other transactions hold, so that one hot channel is served by all
-- workers at once, and a dequeue in an open transaction hides nothing.
-- Caller: pgqueue_take, when the lanes that it could lock did not fill the limit. Returns the locked ids, none of p_except.
-- Locks: messages, SKIP LOCKED. Lanes and arrivals are only read: their holders move them.
CREATE FUNCTION pgqueue_take_shared(p_queue text, p_limit integer, p_lane_seq bigint, p_arrival_xid xid8, p_except bigint[])
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_start record;
    v_ids bigint[] := '{}';
BEGIN
    FOR v_start IN
        SELECT s.channel_id, s.floor_rank, s.floor_at, s.floor_id
        FROM (
            (SELECT l.channel_id, l.floor_rank, l.floor_at, l.floor_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_lane_seq
            ORDER BY l.seq LIMIT 8)
            UNION ALL
            (SELECT DISTINCT ON (a.channel_id) a.channel_id, a.floor_rank, a.floor_at, a.floor_id
            FROM (
                SELECT n.channel_id, n.floor_rank, n.floor_at, n.floor_id FROM pgqueue_arrival AS n
                WHERE n.queue = p_queue AND NOT n.lazy AND n.xid >= p_arrival_xid AND n.kind = 1
                ORDER BY n.xid LIMIT 200
            ) AS a
            ORDER BY a.channel_id, a.floor_rank, a.floor_at, a.floor_id)
        ) AS s
        JOIN pgqueue_channel AS c ON c.id = s.channel_id
        WHERE c.released_at IS NOT NULL
            OR c.max_concurrency IS NULL AND c.release_interval IS NULL AND c.paused_at IS NULL
    LOOP
        v_ids := v_ids || ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_start.channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_start.floor_rank, v_start.floor_at, v_start.floor_id)
                AND m.id <> ALL (p_except) AND m.id <> ALL (v_ids)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT p_limit - cardinality(v_ids)
            FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(v_ids) >= p_limit;
    END LOOP;
    RETURN v_ids;
END;
$$;
