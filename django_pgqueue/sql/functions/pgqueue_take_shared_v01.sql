-- Takes messages of unlimited channels whose lanes other consumers hold, so that one hot channel is served by all workers at once.
-- Caller: pgqueue_take, when the lanes that it could lock did not fill the limit. Returns the locked ids, none of p_except.
-- Locks: messages, SKIP LOCKED. The lanes are only read: their holders move them.
CREATE FUNCTION pgqueue_take_shared(p_queue text, p_limit integer, p_lane_seq bigint, p_except bigint[])
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_lane record;
    v_ids bigint[] := '{}';
BEGIN
    FOR v_lane IN
        SELECT l.channel_id, l.floor_rank, l.floor_at, l.floor_id
        FROM pgqueue_lane AS l
        JOIN pgqueue_channel AS c ON c.id = l.channel_id
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_lane_seq
            AND (c.released_at IS NOT NULL
                OR c.max_concurrency IS NULL AND c.release_interval IS NULL AND c.paused_at IS NULL)
        ORDER BY l.seq
        LIMIT 4
    LOOP
        v_ids := v_ids || ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
                AND m.id <> ALL (p_except) AND m.id <> ALL (v_ids)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT p_limit - cardinality(v_ids)
            FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(v_ids) >= p_limit;
    END LOOP;
    RETURN v_ids;
END;
$$;
