-- Takes up to p_limit ready messages from the head of a queue's line: round robin over channels, by weight, within their limits; none
-- while the queue is paused.
-- Caller: pgqueue_dequeue and pgqueue_pop, which lease or archive them in the same transaction.
-- Returns ids: locked, in the order of service; taken_at: the one reading of the clock that rates and leases go by; contended: nothing
--   was free, but another transaction holds what there is. Locks: arrivals, lanes and messages, all SKIP LOCKED. It never waits.
CREATE FUNCTION pgqueue_take(p_queue text, p_limit integer, OUT ids bigint[], OUT taken_at timestamptz, OUT contended boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    v_floor record;
    v_turns record;
    v_head bigint;
    v_from bigint;
    v_tail bigint;
    v_fold boolean := false;
    v_late xid8;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    contended := false;
    -- Where to look, and what cannot wait, in one statement.
    SELECT n.*,
        EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) AS paused,
        CASE
            WHEN n.news IS NULL AND n.head IS NULL AND n.late_xids = '{}' THEN (
                SELECT a.xid FROM pgqueue_arrival AS a
                WHERE a.queue = p_queue AND a.lazy AND a.xid >= n.arrival_xid ORDER BY a.xid LIMIT 1) IS NULL
            AND (
                SELECT l.parked_until FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until >= n.parked_from AND l.parked_until <= taken_at
                ORDER BY l.parked_until LIMIT 1) IS NULL
        END AS nothing
    INTO v_floor
    FROM (
        SELECT f.*,
            (
                SELECT a.xid FROM pgqueue_arrival AS a
                WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= f.arrival_xid ORDER BY a.xid LIMIT 1
            ) AS news,
            (
                SELECT l.seq FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= f.lane_seq ORDER BY l.seq LIMIT 1
            ) AS head
        FROM pgqueue_floor_now() AS f
        -- Each is looked up once.
        OFFSET 0
    ) AS n;
    -- Whatever comes into the line from now on stands behind its head: no scan needs to walk the dead entries before it again. The same
    -- goes for the first of the news: what becomes visible below it while this call goes on is for the next one.
    v_head := coalesce(v_floor.head, v_floor.lane_seq);

    IF v_floor.paused OR v_floor.nothing THEN
        RETURN;
    END IF;
    IF v_floor.late_xids <> '{}' THEN
        v_late := pgqueue_restamp(p_queue, v_floor.late_xids);
        v_floor.news := least(v_floor.news, v_late);
    END IF;
    IF v_floor.head IS NULL AND v_floor.news IS NOT NULL AND v_late IS NULL THEN
        ids := pgqueue_take_arrived(
            p_queue, p_limit, v_floor.news, v_floor.arrival_xid, v_floor.lane_seq, v_floor.parked_from, taken_at);
        IF ids IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    IF v_floor.news IS NOT NULL THEN
        contended := pgqueue_absorb(p_queue, v_floor.news, v_floor.lane_seq, false);
    END IF;
    IF v_floor.head IS NULL THEN
        contended := pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, true) OR contended;
        PERFORM pgqueue_unpark(p_queue, v_floor.parked_from, taken_at, p_limit);
    END IF;
    v_from := v_head;
    FOR v_round IN 1..greatest(1000 / p_limit, 1) LOOP
        v_turns := pgqueue_take_turns(p_queue, v_from, p_limit, taken_at);
        ids := v_turns.ids;
        contended := contended OR v_turns.asleep;
        v_fold := v_turns.fold;
        EXIT WHEN ids <> '{}' OR v_turns.last_seq IS NULL OR v_turns.last_seq > v_tail;
        -- Lanes that have just come to a limit, or were paused, hide nobody behind them. Those that went to the tail are seen once
        -- more.
        v_tail := coalesce(v_tail, (SELECT s.last_value FROM pgqueue_lane_seq AS s));
        v_from := v_turns.last_seq + 1;
    END LOOP;
    IF cardinality(ids) < p_limit THEN
        ids := ids || pgqueue_take_shared(
            p_queue, p_limit - cardinality(ids), v_head, v_floor.lane_seq, v_floor.news, ids);
    END IF;
    -- What can wait is looked at once in eight turns, so that even without a ticker nobody waits for long, and when work is short: news
    -- of channels in the line, and lanes whose time has come.
    IF v_fold OR cardinality(ids) < p_limit THEN
        contended := pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, true) OR contended;
        PERFORM pgqueue_unpark(p_queue, v_floor.parked_from, taken_at, p_limit);
    END IF;
    IF ids = '{}' THEN
        contended := contended OR pgqueue_is_contended(ARRAY[p_queue]);
    END IF;
END;
$$;
