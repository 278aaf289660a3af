-- Takes one message from the first free lane of a queue, or of one that is held: the short way of a dequeue for a limit of one, while no
-- news need folding. In short statements: for few rows, to begin a large one costs more than to run it.
-- Caller: pgqueue_dequeue. Returns ids: the message, locked, or none: then the long way decides (pgqueue_take); NULL: nothing is there at
--   all, which the many dequeues of idle consumers find out here; taken_at: when; contended: as pgqueue_take, always false.
-- Locks: a lane and its message; once in eight turns or messages also what can wait, as pgqueue_take. All SKIP LOCKED.
CREATE FUNCTION pgqueue_take_next(p_queue text, OUT ids bigint[], OUT taken_at timestamptz, OUT contended boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    v_line record;
    v_lane record;
    v_may record;
    v_left record;
    v_quota integer := 1;
    v_rotate boolean;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    contended := false;
    -- News as in pgqueue_take, or a pause.
    SELECT f.*, EXISTS (SELECT FROM pgqueue_arrival AS a WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= f.arrival_xid)
        OR f.late_xids <> '{}' AND EXISTS (SELECT FROM pgqueue_late_news(p_queue, f.late_xids))
        OR EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) AS unusual
    INTO v_line
    FROM pgqueue_floor_now() AS f;
    IF v_line.unusual THEN
        RETURN;
    END IF;
    SELECT l.ctid AS place, l.seq, l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.served, l.ahead, l.next_at, l.lease_floor,
        c.weight, pgqueue_is_limited(c) AS limited
    INTO v_lane
    FROM pgqueue_lane AS l
    JOIN pgqueue_channel AS c ON c.id = l.channel_id
    WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_line.lane_seq
    ORDER BY l.seq
    LIMIT 1
    FOR UPDATE OF l SKIP LOCKED;
    IF NOT FOUND THEN
        -- Others hold all lanes: what one hot channel has is shared.
        SELECT l.seq INTO v_lane FROM pgqueue_lane AS l
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_line.lane_seq ORDER BY l.seq LIMIT 1;
        IF FOUND THEN
            ids := pgqueue_take_shared(p_queue, 1, v_lane.seq, NULL, NULL, '{}');
            RETURN;
        END IF;
        PERFORM FROM pgqueue_arrival AS a WHERE a.queue = p_queue AND a.lazy AND a.xid >= v_line.arrival_xid ORDER BY a.xid LIMIT 1;
        IF NOT FOUND THEN
            PERFORM FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until >= v_line.parked_from AND l.parked_until <= taken_at
            ORDER BY l.parked_until LIMIT 1;
            ids := CASE WHEN FOUND THEN '{}'::bigint[] END;
        END IF;
        RETURN;
    END IF;
    IF v_lane.limited THEN
        -- A clock that seems to go back: the long way looks closer.
        IF taken_at < v_lane.lease_floor THEN
            RETURN;
        END IF;
        SELECT a.messages, a.room, a.next_at, a.lease_floor INTO v_may
        FROM pgqueue_allowance(v_lane.channel_id, taken_at, 1, v_lane.next_at, v_lane.lease_floor) AS a;
        v_quota := v_may.messages;
    END IF;
    ids := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.channel_id = v_lane.channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT v_quota
        FOR UPDATE SKIP LOCKED);
    v_rotate := v_lane.served + 1 >= v_lane.weight;
    IF v_lane.limited THEN
        PERFORM pgqueue_leave_limited(
            ARRAY[v_lane.place], taken_at, ARRAY[cardinality(ids)], ids, ARRAY[v_may.room], ARRAY[v_may.next_at],
            ARRAY[v_may.lease_floor]);
    ELSIF ids = '{}' THEN
        RETURN;
    ELSIF v_lane.ahead > 1 THEN
        -- More is there, as the last look has seen. The floor is a lower bound, and stays behind by a few messages.
        UPDATE pgqueue_lane AS l
        SET seq = CASE WHEN v_rotate THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
            served = CASE WHEN v_rotate THEN 0 ELSE l.served + 1 END,
            ahead = l.ahead - 1
        WHERE l.ctid = v_lane.place;
    ELSE
        -- The new floor is the first message that is left, locked by others or not, as seen after the lane was locked.
        SELECT count(*) AS ahead, (array_agg(n.rank))[1] AS rank, (array_agg(n.dequeue_at))[1] AS dequeue_at, (array_agg(n.id))[1] AS id
        INTO v_left
        FROM (
            SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
                AND m.id <> ids[1]
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT 8
        ) AS n;
        IF v_left.ahead = 0 THEN
            DELETE FROM pgqueue_lane AS l WHERE l.ctid = v_lane.place;
        ELSE
            UPDATE pgqueue_lane AS l
            SET seq = CASE WHEN v_rotate THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
                served = CASE WHEN v_rotate THEN 0 ELSE l.served + 1 END,
                floor_rank = v_left.rank,
                floor_at = v_left.dequeue_at,
                floor_id = v_left.id,
                ahead = v_left.ahead
            WHERE l.ctid = v_lane.place;
        END IF;
    END IF;
    IF (v_lane.seq + v_lane.served) % 8 = 0 THEN
        -- What can wait: news of channels in the line, and lanes whose time has come. Without a ticker nobody waits for long.
        PERFORM pgqueue_absorb(p_queue, v_line.arrival_xid, v_line.lane_seq, true);
        PERFORM pgqueue_unpark(p_queue, v_line.parked_from, taken_at, 1);
    END IF;
END;
$$;
