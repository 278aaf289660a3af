-- Takes up to p_limit ready messages of a queue: of fresh lanes first, then round robin from the head of the line, by
-- weight, within limits.
-- The callers lease the messages in the same transaction. p_channel_id: of this channel only; p_among: and of these
-- messages only; p_room: what a queue with limits allows, NULL before it was asked (pgqueue_take_guarded).
-- Returns ids: locked, in the order of service, NULL while another dequeue holds the gate of the queue; taken_at: the
--   one reading of the clock that rates and leases go by; contended: no message was free, but another transaction
--   holds some; cost: of the messages; wanted: as in pgqueue_take_turn.
-- Locks: arrivals, lanes and messages, all SKIP LOCKED.
CREATE FUNCTION pgqueue_take(
    p_queue text,
    p_limit integer,
    p_channel_id bigint DEFAULT NULL,
    p_among bigint[] DEFAULT NULL,
    p_room pgqueue_queue_room DEFAULT NULL,
    OUT ids bigint[],
    OUT taken_at timestamptz,
    OUT contended boolean,
    OUT cost bigint,
    OUT wanted integer
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_line record;
    v_turn record;
    v_share double precision := CASE WHEN p_channel_id IS NULL THEN 0 END;
    v_lane record;
    v_waits boolean;
    v_fresh boolean;
    v_from bigint;
    v_tail bigint;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    contended := false;
    cost := 0;
    SELECT n.lane_seq, n.fresh_seq, n.head, n.fresh_head, n.urgent, n.guarded, n.due INTO v_line
    FROM pgqueue_line(p_queue, taken_at) AS n;
    IF v_line.guarded AND p_room.messages IS NULL THEN
        SELECT g.ids, g.taken_at, g.contended INTO ids, taken_at, contended
        FROM pgqueue_take_guarded(p_queue, p_limit, p_channel_id, p_among) AS g;
        RETURN;
    END IF;
    v_fresh := v_line.fresh_head IS NOT NULL OR v_line.urgent;
    IF v_line.urgent THEN
        contended := pgqueue_fold(p_queue, false, taken_at);
    END IF;
    IF v_line.head IS NULL OR p_channel_id IS NOT NULL OR v_line.due THEN
        contended := pgqueue_fold(p_queue, true, taken_at) OR contended;
    END IF;
    -- A lane that comes into the line from now on stands behind its head: no scan walks the dead entries before it
    -- again.
    v_fresh := v_fresh OR v_line.head IS NULL OR v_line.due;
    v_line.lane_seq := coalesce(v_line.head, v_line.lane_seq);
    v_line.fresh_seq := coalesce(v_line.fresh_head, v_line.fresh_seq);
    IF p_limit > 1 AND p_channel_id IS NULL THEN
        -- The weights of the channels that are first in the line.
        SELECT p_limit / coalesce(sum(c.weight), 1)::double precision,
            (SELECT s.last_value FROM pgqueue_lane_seq AS s)
        INTO v_share, v_tail
        FROM (
            (SELECT l.channel_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= v_line.fresh_seq
            ORDER BY l.seq LIMIT 16)
            UNION ALL
            (SELECT l.channel_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= v_line.lane_seq
            ORDER BY l.seq LIMIT 16)
            LIMIT least(p_limit, 16)
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id;
    END IF;
    v_from := CASE WHEN v_fresh THEN v_line.fresh_seq ELSE v_line.lane_seq END;
    FOR v_round IN 1..1000 LOOP
        IF p_channel_id IS NULL THEN
            SELECT l.ctid AS place, l.seq > v_tail AS again INTO v_lane
            FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh = v_fresh AND l.seq >= v_from
            ORDER BY l.seq LIMIT 1
            FOR UPDATE OF l SKIP LOCKED;
        ELSE
            SELECT n.place, false AS again INTO v_lane FROM pgqueue_lock_lane(p_channel_id) AS n;
            contended := contended OR v_lane.place IS NULL;
        END IF;
        v_turn := pgqueue_take_turn(v_lane.place, v_line.lane_seq, p_limit - cardinality(ids), v_share, taken_at,
            p_among, CASE WHEN v_lane.again THEN ids ELSE '{}' END, p_room);
        ids := ids || v_turn.ids;
        contended := contended OR v_turn.contended;
        cost := cost + coalesce(v_turn.cost, 0);
        p_room.tokens := p_room.tokens - coalesce(v_turn.cost, 0);
        wanted := v_turn.wanted;
        EXIT WHEN cardinality(ids) = p_limit OR p_channel_id IS NOT NULL OR wanted IS NOT NULL;
        IF v_turn.seq IS NOT NULL AND (v_fresh OR v_turn.ids <> '{}' OR v_turn.seq <= v_tail IS NOT FALSE) THEN
            v_from := v_turn.seq + 1;
            v_tail := coalesce(v_tail, (SELECT s.last_value FROM pgqueue_lane_seq AS s));
        ELSE
            -- No lane is left, or one that went to the tail in this call has nothing again.
            EXIT WHEN NOT v_fresh;
            v_fresh := false;
            v_from := v_line.lane_seq;
        END IF;
    END LOOP;
    -- Beside a rate of the queue, the dequeues that hold lanes are over: the gate is locked.
    IF cardinality(ids) < p_limit AND p_room.tokens IS NULL AND (p_among IS NULL OR v_turn.seq IS NULL) THEN
        ids := ids || pgqueue_take_shared(
            p_queue, p_limit - cardinality(ids), v_line.lane_seq, v_line.fresh_seq, ids, p_channel_id, p_among);
    END IF;
    -- Arrivals that can wait are folded when work is short and about once in eight turns: so no ticker is needed.
    IF cardinality(ids) < p_limit OR p_limit >= 8 OR v_turn.seq % 8 < p_limit THEN
        SELECT n.lazy OR n.due INTO v_waits FROM pgqueue_line(p_queue, taken_at) AS n;
        IF v_waits THEN
            contended := pgqueue_fold(p_queue, true, taken_at) OR contended;
        END IF;
    END IF;
    IF ids = '{}' AND p_channel_id IS NULL AND wanted IS NULL THEN
        contended := contended OR pgqueue_is_contended(ARRAY[p_queue]);
    END IF;
END;
$$;
