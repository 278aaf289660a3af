-- Finds the ready messages of a queue that match, by channel: one of the handlers, a payload that contains p_payload,
-- or both.
-- With p_payload and the index of payloads (pgqueue_message_payload) it is a look-up, of p_look matches at most.
-- Otherwise it walks the first p_look ready messages of the first 100 channels in the line, each channel its share. The
-- caller has folded the arrivals before.
-- Returns channels in the order of the line; limited channels that are parked are left out.
-- Locks: none.
CREATE FUNCTION pgqueue_find_matching(p_queue text, p_handlers text[], p_payload jsonb, p_look integer)
RETURNS TABLE (channel_id bigint, ids bigint[])
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
    v_line record;
    v_starts record;
BEGIN
    IF p_payload IS NOT NULL AND EXISTS (
        SELECT FROM pg_index AS i WHERE i.indexrelid = to_regclass('pgqueue_message_payload') AND i.indisvalid)
    THEN
        v_ids := pgqueue_match_payload(p_queue, p_handlers, p_payload, p_look);
    ELSE
        SELECT coalesce(n.head, n.lane_seq) AS lane_seq, coalesce(n.fresh_head, n.fresh_seq) AS fresh_seq INTO v_line
        FROM pgqueue_line(p_queue, NULL) AS n;
        SELECT array_agg(s.channel_id) AS channels, array_agg(s.rank) AS ranks, array_agg(s.at) AS ats,
            array_agg(s.key) AS keys, p_look / greatest(count(*), 1) AS share
        INTO v_starts
        FROM pgqueue_starts(p_queue, v_line.lane_seq, v_line.fresh_seq, 100) AS s;
        v_ids := ARRAY(
            SELECT m.id
            FROM unnest(v_starts.channels, v_starts.ranks, v_starts.ats, v_starts.keys) AS u (channel_id, rank, at, key)
            CROSS JOIN LATERAL (
                SELECT r.id, r.handler, r.payload FROM pgqueue_message AS r
                WHERE r.channel_id = u.channel_id AND r.status = 1
                    AND (-r.priority, r.dequeue_at, r.id) >= (u.rank, u.at, u.key)
                ORDER BY -r.priority, r.dequeue_at, r.id
                LIMIT greatest(v_starts.share, 1)
            ) AS m
            WHERE (p_handlers IS NULL OR m.handler = ANY (p_handlers))
                AND (p_payload IS NULL OR m.payload @> p_payload));
    END IF;
    -- The order is the lane's own place: pgqueue_starts has one place for all that are fresh, and the same one would
    -- always be first.
    RETURN QUERY
    SELECT n.channel_id, n.ids
    FROM (
        SELECT m.channel_id, array_agg(m.id) AS ids FROM pgqueue_message AS m WHERE m.id = ANY (v_ids)
        GROUP BY m.channel_id
    ) AS n
    LEFT JOIN LATERAL (
        SELECT l.fresh, CASE WHEN l.parked_until IS NULL THEN l.seq END AS seq FROM pgqueue_lane AS l
        WHERE l.channel_id = n.channel_id ORDER BY l.seq DESC LIMIT 1
    ) AS l ON true
    ORDER BY l.seq IS NULL, l.fresh DESC, l.seq, n.channel_id;
END;
$$;
