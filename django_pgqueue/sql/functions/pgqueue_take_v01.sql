-- Takes up to p_limit ready messages from the head of a queue's line: round robin over channels, by weight, within their limits.
-- Caller: pgqueue_dequeue and pgqueue_pop, which lease or archive them in the same transaction.
-- Returns the locked ids in the order of service; contended: nothing was free, but another transaction holds what there is.
-- Locks: lanes and messages, all SKIP LOCKED. It never waits.
CREATE FUNCTION pgqueue_take(p_queue text, p_limit integer, OUT ids bigint[], OUT contended boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_floor record;
    v_lane record;
    v_may record;
    v_got bigint[];
    v_weights bigint := 1;
    v_quota integer;
    v_rotate boolean;
    v_fold boolean := false;
BEGIN
    ids := '{}';
    contended := false;
    -- Where to look, and what is there, in one statement.
    SELECT f.arrival_xid, f.late_xids, f.lane_seq, f.parked_from,
        f.late_xids <> '{}' AND EXISTS (
            SELECT FROM pgqueue_arrival AS a WHERE a.lazy = ANY ('{f,t}') AND a.xid = ANY (f.late_xids)) AS late,
        (
            SELECT CASE WHEN count(*) = 0 THEN 'none' WHEN count(*) <= 16 AND bool_and(n.messages = 1) THEN 'few' ELSE 'many' END
            FROM (SELECT a.messages FROM pgqueue_arrival AS a WHERE NOT a.lazy AND a.xid >= f.arrival_xid LIMIT 17) AS n
        ) AS news,
        EXISTS (
            SELECT FROM pgqueue_lane AS l WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= f.lane_seq) AS line,
        EXISTS (
            SELECT FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until >= f.parked_from AND l.parked_until <= v_now) AS due
    INTO v_floor
    FROM (SELECT f.* FROM pgqueue_floor AS f ORDER BY f.id DESC LIMIT 1) AS f;

    IF v_floor.late THEN
        PERFORM pgqueue_restamp(v_floor.late_xids);
    ELSIF v_floor.news = 'few' AND NOT v_floor.line AND NOT v_floor.due THEN
        ids := pgqueue_take_arrived(p_queue, p_limit, v_floor.arrival_xid);
        IF cardinality(ids) = p_limit THEN
            RETURN;
        END IF;
    END IF;
    IF v_floor.news <> 'none' OR v_floor.late THEN
        contended := pgqueue_absorb(v_floor.arrival_xid, v_floor.lane_seq, false);
    END IF;
    IF NOT v_floor.line THEN
        contended := contended OR pgqueue_absorb(v_floor.arrival_xid, v_floor.lane_seq, true);
    END IF;
    IF v_floor.due THEN
        PERFORM pgqueue_unpark(p_queue, v_floor.parked_from, v_now, p_limit);
    END IF;

    -- A lane's quota is its share of the limit by weight, so the lanes within reach are weighed first.
    IF p_limit > 1 THEN
        SELECT coalesce(sum(c.weight), 1) INTO v_weights
        FROM (
            SELECT l.channel_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_floor.lane_seq
            ORDER BY l.seq LIMIT p_limit
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id;
    END IF;

    FOR v_lane IN
        SELECT l.seq, l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.served, l.next_at, l.lease_floor,
            c.weight, c.max_concurrency, c.release_interval, c.release_burst, c.paused_at,
            c.released_at IS NULL AND (
                c.max_concurrency IS NOT NULL OR c.release_interval IS NOT NULL OR c.paused_at IS NOT NULL) AS limited
        FROM pgqueue_lane AS l
        JOIN pgqueue_channel AS c ON c.id = l.channel_id
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_floor.lane_seq
        ORDER BY l.seq
        LIMIT p_limit
        FOR UPDATE OF l SKIP LOCKED
    LOOP
        v_quota := least(
            p_limit - cardinality(ids),
            greatest(v_lane.weight - v_lane.served, (p_limit * v_lane.weight + v_weights - 1) / v_weights));
        EXIT WHEN v_quota < 1;
        v_fold := v_fold OR v_lane.seq % 8 = 0;
        v_may := NULL;
        IF v_lane.limited THEN
            SELECT a.messages, a.room, a.next_at, a.lease_floor INTO v_may
            FROM pgqueue_allowance(
                v_lane.channel_id, v_now, v_quota, v_lane.paused_at, v_lane.max_concurrency, v_lane.lease_floor,
                v_lane.release_interval, v_lane.release_burst, v_lane.next_at) AS a;
            v_quota := v_may.messages;
        END IF;
        v_got := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT v_quota
            FOR UPDATE SKIP LOCKED);
        ids := ids || v_got;
        IF v_lane.limited THEN
            PERFORM pgqueue_leave_limited(v_lane.channel_id, v_lane.seq, v_now, v_got, v_may.room, v_may.next_at, v_may.lease_floor);
            CONTINUE;
        END IF;
        -- Its new floor is the first message that is left, locked by others or not, as seen after the lane was locked.
        v_rotate := v_got = '{}' OR v_lane.served + cardinality(v_got) >= v_lane.weight;
        UPDATE pgqueue_lane AS l
        SET seq = CASE WHEN v_rotate THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
            served = CASE WHEN v_rotate THEN 0 ELSE l.served + cardinality(v_got) END,
            floor_rank = n.rank,
            floor_at = n.dequeue_at,
            floor_id = n.id
        FROM (
            SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
                AND m.id <> ALL (v_got)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT 1
        ) AS n
        WHERE l.channel_id = v_lane.channel_id AND l.seq = v_lane.seq;
        IF NOT FOUND THEN
            DELETE FROM pgqueue_lane AS l WHERE l.channel_id = v_lane.channel_id AND l.seq = v_lane.seq;
        END IF;
    END LOOP;

    IF cardinality(ids) < p_limit THEN
        ids := ids || pgqueue_take_shared(p_queue, p_limit - cardinality(ids), v_floor.lane_seq, v_floor.arrival_xid, ids);
    END IF;
    IF ids = '{}' THEN
        contended := contended OR EXISTS (
            SELECT FROM pgqueue_lane AS l WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_floor.lane_seq);
    ELSIF v_fold THEN
        -- News that can wait are folded in once in eight turns, so that even without a ticker nobody waits for long.
        PERFORM pgqueue_absorb(v_floor.arrival_xid, v_floor.lane_seq, true);
    END IF;
END;
$$;
