-- Takes messages of unlimited channels whose lanes or arrivals other transactions hold, so that one hot channel is served by all
-- workers at once, and a dequeue in an open transaction hides nothing. Each channel gives its share first, then whoever has more.
-- Caller: pgqueue_take, when the lanes that it could lock did not fill the limit. p_head: of the line, when the call began; p_lane_seq: the
--   floor, below which no lane of a channel with news can show up meanwhile; p_arrival_xid: of the first of the news, null without any.
-- Returns the locked ids, none of p_except. Locks: messages, SKIP LOCKED. Lanes and arrivals are only read: their holders move them.
CREATE FUNCTION pgqueue_take_shared(
    p_queue text, p_limit integer, p_head bigint, p_lane_seq bigint, p_arrival_xid xid8, p_except bigint[]
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_starts record;
    v_quota integer;
    v_ids bigint[] := '{}';
BEGIN
    IF p_arrival_xid IS NULL THEN
        SELECT array_agg(n.channel_id) AS channels, array_agg(n.floor_rank) AS ranks, array_agg(n.floor_at) AS ats,
            array_agg(n.floor_id) AS keys
        INTO v_starts
        FROM (
            SELECT l.channel_id, l.floor_rank, l.floor_at, l.floor_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_head
            ORDER BY l.seq LIMIT 8
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id
        WHERE NOT pgqueue_is_limited(c);
    ELSE
        -- A channel may have both news and a lane: its messages begin at the lower floor, or what is new would overtake what waits. If
        -- it ever had a limit or a pause, its lane may stand below the line, where it was parked: its newest entry is the one that lives.
        WITH news AS MATERIALIZED (
            SELECT DISTINCT ON (a.channel_id) a.channel_id, a.floor_rank, a.floor_at, a.floor_id
            FROM (
                SELECT n.channel_id, n.floor_rank, n.floor_at, n.floor_id FROM pgqueue_arrival AS n
                WHERE n.queue = p_queue AND NOT n.lazy AND n.xid >= p_arrival_xid AND n.kind = 1
                ORDER BY n.xid LIMIT 200
            ) AS a
            ORDER BY a.channel_id, a.floor_rank, a.floor_at, a.floor_id
        ),
        starts AS (
            (SELECT l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.seq FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_head
            ORDER BY l.seq LIMIT 8)
            UNION ALL
            SELECT n.channel_id, n.floor_rank, n.floor_at, n.floor_id, NULL FROM news AS n
            UNION ALL
            SELECT n.channel_id, o.floor_rank, o.floor_at, o.floor_id, o.seq
            FROM news AS n
            CROSS JOIN LATERAL (
                SELECT CASE WHEN c.changed_at IS NULL THEN p_lane_seq ELSE 0 END AS seq FROM pgqueue_channel AS c
                WHERE c.id = n.channel_id AND NOT pgqueue_is_limited(c)
                LIMIT 1
            ) AS c
            CROSS JOIN LATERAL (
                SELECT l.floor_rank, l.floor_at, l.floor_id, l.seq FROM pgqueue_lane AS l
                WHERE l.channel_id = n.channel_id AND l.seq >= c.seq
                ORDER BY l.seq DESC LIMIT 1
            ) AS o
        )
        SELECT array_agg(s.channel_id ORDER BY s.seq) AS channels, array_agg(s.floor_rank ORDER BY s.seq) AS ranks,
            array_agg(s.floor_at ORDER BY s.seq) AS ats, array_agg(s.floor_id ORDER BY s.seq) AS keys
        INTO v_starts
        FROM (
            SELECT DISTINCT ON (o.channel_id) o.channel_id, o.floor_rank, o.floor_at, o.floor_id,
                min(o.seq) OVER (PARTITION BY o.channel_id) AS seq
            FROM starts AS o
            ORDER BY o.channel_id, o.floor_rank, o.floor_at, o.floor_id
        ) AS s
        JOIN pgqueue_channel AS c ON c.id = s.channel_id
        WHERE NOT pgqueue_is_limited(c);
    END IF;
    v_quota := (p_limit + cardinality(v_starts.channels) - 1) / cardinality(v_starts.channels);
    WHILE cardinality(v_ids) < p_limit AND v_quota > 0 LOOP
        v_ids := v_ids || ARRAY(
            SELECT m.id
            FROM unnest(v_starts.channels, v_starts.ranks, v_starts.ats, v_starts.keys) AS u (channel_id, rank, at, key)
            CROSS JOIN LATERAL (
                SELECT m.id FROM pgqueue_message AS m
                WHERE m.channel_id = u.channel_id AND m.status = 1 AND (-m.priority, m.dequeue_at, m.id) >= (u.rank, u.at, u.key)
                    AND m.id <> ALL (p_except) AND m.id <> ALL (v_ids)
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT v_quota
                FOR UPDATE SKIP LOCKED
            ) AS m
            LIMIT p_limit - cardinality(v_ids));
        -- Once more for what is left, if there may be some.
        v_quota := CASE WHEN v_ids <> '{}' AND v_quota < p_limit THEN p_limit ELSE 0 END;
    END LOOP;
    RETURN v_ids;
END;
$$;
