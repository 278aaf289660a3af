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
    v_lane record;
    v_may record;
    v_got bigint[];
    v_head bigint;
    v_from bigint;
    v_last bigint;
    v_tail bigint;
    v_weights bigint := 1;
    v_quota integer;
    v_rotate boolean;
    v_fold boolean := false;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    contended := false;
    -- Where to look, and what is there, in one statement.
    SELECT f.arrival_xid, f.late_xids, f.lane_seq, f.parked_from,
        f.late_xids <> '{}' AND EXISTS (
            SELECT FROM pgqueue_arrival AS a
            WHERE a.queue = p_queue AND a.lazy = ANY ('{f,t}') AND a.xid = ANY (f.late_xids)) AS late,
        -- How many there are; -1 for too many, or for what the short way cannot do.
        (
            SELECT CASE WHEN count(*) = 0 OR count(*) <= 16 AND bool_and(n.messages = 1 AND n.free IS TRUE) THEN count(*) ELSE -1 END
            FROM (
                SELECT a.messages,
                    c.released_at IS NOT NULL
                    OR c.max_concurrency IS NULL AND c.release_interval IS NULL AND c.paused_at IS NULL AS free
                FROM pgqueue_arrival AS a
                LEFT JOIN pgqueue_channel AS c ON c.id = a.channel_id
                WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= f.arrival_xid LIMIT 17
            ) AS n
        ) AS news,
        EXISTS (SELECT FROM pgqueue_arrival AS a WHERE a.queue = p_queue AND a.lazy AND a.xid >= f.arrival_xid) AS lazy,
        (
            SELECT l.seq FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= f.lane_seq ORDER BY l.seq LIMIT 1
        ) AS head,
        EXISTS (
            SELECT FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until >= f.parked_from AND l.parked_until <= taken_at) AS due,
        EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) AS paused
    INTO v_floor
    FROM (
        -- A floor from the future comes from a dump that was restored in a younger cluster: it holds nothing. And what this
        -- transaction has enqueued itself may stand below the floor, when it is old.
        SELECT CASE
                WHEN o.arrival_xid <= pg_snapshot_xmax(pg_current_snapshot())
                    THEN least(o.arrival_xid, pg_current_xact_id_if_assigned())
                ELSE '0'
            END AS arrival_xid,
            o.late_xids, o.lane_seq, o.parked_from
        FROM pgqueue_floor AS o ORDER BY o.id DESC LIMIT 1
    ) AS f;

    IF v_floor.paused THEN
        RETURN;
    END IF;
    IF v_floor.late THEN
        PERFORM pgqueue_restamp(p_queue, v_floor.late_xids);
    ELSIF v_floor.news >= 0 AND NOT v_floor.lazy AND v_floor.head IS NULL AND NOT v_floor.due THEN
        ids := CASE WHEN v_floor.news > 0 THEN pgqueue_take_arrived(p_queue, p_limit, v_floor.arrival_xid) ELSE ids END;
        IF cardinality(ids) = least(p_limit, v_floor.news) THEN
            RETURN;
        END IF;
    END IF;
    IF v_floor.news <> 0 OR v_floor.late THEN
        contended := pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, false);
    END IF;
    IF v_floor.head IS NULL THEN
        contended := contended OR pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, true);
    END IF;
    IF v_floor.due THEN
        PERFORM pgqueue_unpark(p_queue, v_floor.parked_from, taken_at, p_limit);
    END IF;

    -- Whatever comes into the line now stands behind its head: no scan needs to walk the dead entries before it again.
    v_head := coalesce(v_floor.head, v_floor.lane_seq);

    -- A lane's quota is its share of the limit by weight, so the lanes within reach are weighed first.
    IF p_limit > 1 THEN
        SELECT coalesce(sum(c.weight), 1) INTO v_weights
        FROM (
            SELECT l.channel_id FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_head
            ORDER BY l.seq LIMIT p_limit
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id;
    END IF;

    v_from := v_head;
    FOR v_round IN 1..greatest(1000 / p_limit, 1) LOOP
        v_last := NULL;
        FOR v_lane IN
            SELECT l.seq, l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.served, l.next_at, l.lease_floor,
                c.weight,
                c.released_at IS NULL AND (
                    c.max_concurrency IS NOT NULL OR c.release_interval IS NOT NULL OR c.paused_at IS NOT NULL) AS limited
            FROM pgqueue_lane AS l
            JOIN pgqueue_channel AS c ON c.id = l.channel_id
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_from
            ORDER BY l.seq
            LIMIT p_limit
            FOR UPDATE OF l SKIP LOCKED
        LOOP
            v_last := v_lane.seq;
            v_quota := least(
                p_limit - cardinality(ids),
                greatest(v_lane.weight - v_lane.served, (p_limit * v_lane.weight + v_weights - 1) / v_weights));
            EXIT WHEN v_quota < 1;
            IF taken_at < v_lane.lease_floor THEN
                -- This call has been asleep since it read the clock: its leases would not be counted. The next call reads it anew.
                IF clock_timestamp() >= v_lane.lease_floor THEN
                    contended := true;
                    EXIT;
                END IF;
                -- The clock was set back: count all leases.
                v_lane.lease_floor := '-infinity';
            END IF;
            IF v_lane.limited THEN
                v_may := pgqueue_allowance(v_lane.channel_id, taken_at, v_quota, v_lane.next_at, v_lane.lease_floor);
                v_quota := v_may.messages;
            END IF;
            v_got := ARRAY(
                SELECT m.id FROM pgqueue_message AS m
                WHERE m.channel_id = v_lane.channel_id AND m.status = 1
                    AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
                    AND m.id <> ALL (ids)
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT v_quota
                FOR UPDATE SKIP LOCKED);
            ids := ids || v_got;
            -- True once in about eight turns or messages.
            v_fold := v_fold OR (v_lane.seq + v_lane.served) / 8 < (v_lane.seq + v_lane.served + cardinality(v_got)) / 8;
            IF v_lane.limited THEN
                PERFORM pgqueue_leave_limited(
                    v_lane.channel_id, v_lane.seq, taken_at, v_got, v_may.room, v_may.next_at, v_may.lease_floor);
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
                    AND m.id <> ALL (ids)
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT 1
            ) AS n
            WHERE l.channel_id = v_lane.channel_id AND l.seq = v_lane.seq;
            IF NOT FOUND THEN
                DELETE FROM pgqueue_lane AS l WHERE l.channel_id = v_lane.channel_id AND l.seq = v_lane.seq;
            END IF;
        END LOOP;
        EXIT WHEN ids <> '{}' OR v_last IS NULL OR v_last > v_tail;
        -- Lanes that have just come to a limit, or were paused, hide nobody behind them. Those that went to the tail are seen once more.
        v_tail := coalesce(v_tail, (SELECT s.last_value FROM pgqueue_lane_seq AS s));
        v_from := v_last + 1;
    END LOOP;

    IF cardinality(ids) < p_limit THEN
        ids := ids || pgqueue_take_shared(p_queue, p_limit - cardinality(ids), v_head, v_floor.arrival_xid, ids);
    END IF;
    -- News that can wait are folded in once in eight turns, so that even without a ticker nobody waits for long, and when work is short.
    IF v_fold OR cardinality(ids) < p_limit THEN
        contended := pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, true) OR contended;
    END IF;
    IF ids = '{}' THEN
        contended := contended OR EXISTS (
            SELECT FROM pgqueue_lane AS l WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= v_head);
    END IF;
END;
$$;
