-- Takes single messages straight from their arrivals, without a lane: the short way while no lane stands in line.
-- Caller: pgqueue_take, when the line is empty; p_news_xid: of the first arrival that it has seen. It works when the call can take all that
--   has arrived, at most 16 single messages on channels without limits. What stays behind needs a place in the line: an arrival has none,
--   so a channel whose messages have a high priority or an old dequeue_at could be served before the others again and again.
-- Returns the locked ids, channels in turn; none when there is nothing; null: the caller must fall back to the lanes.
-- Locks: arrivals and messages, SKIP LOCKED.
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
    v_most integer := least(p_limit, 16);
    v_news record;
    v_places tid[];
    v_got bigint[];
BEGIN
    SELECT count(*) AS count, coalesce(bool_and(n.short), true) AS short,
        -- A channel's messages by their keys, one of each channel in turn.
        array_agg(n.floor_id ORDER BY n.turn, n.floor_id) AS ids,
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
        SELECT a.floor_id, a.short,
            row_number() OVER (PARTITION BY a.channel_id ORDER BY a.floor_rank, a.floor_at, a.floor_id) AS turn
        FROM (
            SELECT a.channel_id, a.floor_rank, a.floor_at, a.floor_id, a.messages = 1 AND NOT pgqueue_is_limited(c) AS short
            FROM pgqueue_arrival AS a
            LEFT JOIN pgqueue_channel AS c ON c.id = a.channel_id
            WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= p_news_xid ORDER BY a.xid LIMIT v_most + 1
        ) AS a
    ) AS n;
    IF v_news.line OR v_news.count > v_most OR NOT v_news.short THEN
        RETURN NULL;
    ELSIF v_news.count = 0 THEN
        RETURN '{}';
    END IF;
    -- All of them or none: one that another transaction holds may come before these in its channel.
    v_places := ARRAY(
        SELECT a.ctid FROM pgqueue_arrival AS a
        JOIN pgqueue_channel AS c ON c.id = a.channel_id
        WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= p_news_xid AND a.messages = 1
            -- Those seen above: an arrival may have come since.
            AND a.floor_id = ANY (v_news.ids)
            AND NOT pgqueue_is_limited(c)
        FOR UPDATE OF a SKIP LOCKED);
    IF cardinality(v_places) < v_news.count THEN
        RETURN NULL;
    END IF;
    -- By their keys; the cast is as in pgqueue_announce.
    v_got := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.id = ANY (v_news.ids) AND m.status::integer = 1
        FOR UPDATE SKIP LOCKED);
    -- Another transaction has one of them, or it has gone.
    IF cardinality(v_got) < v_news.count THEN
        RETURN NULL;
    END IF;
    DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (v_places);
    RETURN v_news.ids;
END;
$$;
