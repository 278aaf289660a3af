-- Takes single messages straight from their arrivals, without a lane: the short way while nobody stands in line.
-- Caller: pgqueue_take, when the line is empty; p_news_xid: of the first arrival that it has seen. It works when no more than 16 arrivals
--   are there, all of single messages on channels without limits: so no message overtakes another of its channel, and no channel waits
--   for more than these.
-- Returns the locked ids; none when there is nothing; null when the long way must be gone. Locks: arrivals and messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_take_arrived(
    p_queue text,
    p_limit integer,
    p_news_xid xid8,
    p_arrival_xid xid8,
    p_lane_seq bigint,
    p_parked_from timestamptz,
    p_now timestamptz
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_news record;
    v_places tid[];
    v_ids bigint[];
    v_got bigint[];
BEGIN
    SELECT count(*) AS count, coalesce(bool_and(n.short), true) AS short,
        array_agg(n.floor_id ORDER BY n.floor_rank, n.floor_at, n.floor_id) AS ids,
        -- In one snapshot with the news: what somebody has just folded stands in line now. Each in the order of its index, or the
        -- planner may take another one, which looks as cheap while it is small.
        (
            (
                SELECT l.seq FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= p_lane_seq ORDER BY l.seq LIMIT 1) IS NOT NULL
            OR (
                SELECT l.parked_until FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until >= p_parked_from AND l.parked_until <= p_now
                ORDER BY l.parked_until LIMIT 1) IS NOT NULL
            OR (
                SELECT a.xid FROM pgqueue_arrival AS a
                WHERE a.queue = p_queue AND a.lazy AND a.xid >= p_arrival_xid ORDER BY a.xid LIMIT 1) IS NOT NULL
        ) AS line
    INTO v_news
    FROM (
        SELECT a.floor_rank, a.floor_at, a.floor_id, a.messages = 1 AND NOT pgqueue_is_limited(c) AS short
        FROM pgqueue_arrival AS a
        LEFT JOIN pgqueue_channel AS c ON c.id = a.channel_id
        WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= p_news_xid ORDER BY a.xid LIMIT 17
    ) AS n;
    IF v_news.line OR v_news.count > 16 OR NOT v_news.short THEN
        RETURN NULL;
    ELSIF v_news.count = 0 THEN
        RETURN '{}';
    END IF;
    SELECT coalesce(array_agg(n.place ORDER BY n.floor_rank, n.floor_at, n.floor_id), '{}'),
        coalesce(array_agg(n.floor_id ORDER BY n.floor_rank, n.floor_at, n.floor_id), '{}')
    INTO v_places, v_ids
    FROM (
        SELECT a.ctid AS place, a.floor_rank, a.floor_at, a.floor_id
        FROM pgqueue_arrival AS a
        JOIN pgqueue_channel AS c ON c.id = a.channel_id
        WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= p_news_xid AND a.messages = 1
            -- An arrival may have come since.
            AND NOT pgqueue_is_limited(c)
        ORDER BY a.floor_rank, a.floor_at, a.floor_id
        LIMIT p_limit
        FOR UPDATE OF a SKIP LOCKED
    ) AS n;
    IF cardinality(v_ids) < least(p_limit, v_news.count) THEN
        RETURN NULL;
    END IF;
    -- With those that come before them: who holds only their news must have them too, or they would be overtaken. By their keys; the cast
    -- is as in pgqueue_announce.
    v_got := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.id = ANY (v_news.ids[:array_position(v_news.ids, v_ids[cardinality(v_ids)])] || v_ids) AND m.status::integer = 1
        FOR UPDATE SKIP LOCKED);
    -- Somebody else has one of them, or it has gone, or one before them is free: all of them go the long way, in their order.
    IF cardinality(v_got) <> cardinality(v_ids) OR NOT v_got @> v_ids THEN
        RETURN NULL;
    END IF;
    DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (v_places);
    RETURN v_ids;
END;
$$;
