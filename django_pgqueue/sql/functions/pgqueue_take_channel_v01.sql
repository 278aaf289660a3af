-- Takes up to p_limit ready messages of one channel, within its limits, as pgqueue_take does for all channels of a queue; none while the
-- queue is paused.
-- Caller: pgqueue_stream_claim, pgqueue_dequeue_matching, which lease them in the same transaction. p_among: only of these messages.
-- Returns ids: locked, in the order of service; taken_at: when; contended: nothing was free, but another transaction holds what there is.
-- Locks: arrivals, lanes and messages, all SKIP LOCKED. It never waits. Errors: PGQ03.
CREATE FUNCTION pgqueue_take_channel(
    p_queue text,
    p_channel text,
    p_limit integer,
    p_among bigint[] DEFAULT NULL,
    OUT ids bigint[],
    OUT taken_at timestamptz,
    OUT contended boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_floor record;
    v_channel record;
    v_lane record;
    v_may record;
    v_quota integer := p_limit;
    v_held boolean;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    contended := false;
    SELECT c.id, pgqueue_is_limited(c) AS limited INTO v_channel FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel;
    IF NOT FOUND THEN
        PERFORM pgqueue_raise(m.refusal) FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
    END IF;
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) THEN
        RETURN;
    END IF;
    SELECT f.* INTO v_floor FROM pgqueue_floor_now() AS f;
    -- Nobody else may serve this queue: the news are folded in here, those of other channels too.
    IF v_floor.late_xids <> '{}' THEN
        v_floor.arrival_xid := least(v_floor.arrival_xid, pgqueue_restamp(p_queue, v_floor.late_xids));
    END IF;
    contended := pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, false);
    contended := pgqueue_absorb(p_queue, v_floor.arrival_xid, v_floor.lane_seq, true) OR contended;
    PERFORM pgqueue_unpark(p_queue, v_floor.parked_from, taken_at, 1000);

    SELECT l.ctid AS place, l.* INTO v_lane FROM pgqueue_lane AS l
    WHERE l.channel_id = v_channel.id AND l.parked_until IS NULL AND l.seq >= v_floor.lane_seq
    ORDER BY l.seq DESC LIMIT 1
    FOR UPDATE SKIP LOCKED;
    v_held := FOUND;
    IF NOT v_held THEN
        contended := contended OR (
            SELECT l.seq FROM pgqueue_lane AS l
            WHERE l.channel_id = v_channel.id AND l.parked_until IS NULL AND l.seq >= v_floor.lane_seq
            ORDER BY l.seq DESC LIMIT 1) IS NOT NULL
        OR v_channel.id IN (
            SELECT a.channel_id FROM pgqueue_arrival AS a
            WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= v_floor.arrival_xid
            ORDER BY a.xid LIMIT 200);
        IF v_channel.limited THEN
            RETURN;
        END IF;
        -- Another transaction has the lane, or the news of it. Without limits the messages may be shared, as in pgqueue_take_shared.
        SELECT s.floor_rank, s.floor_at, s.floor_id INTO v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id
        FROM (
            (SELECT l.floor_rank, l.floor_at, l.floor_id FROM pgqueue_lane AS l
            WHERE l.channel_id = v_channel.id AND l.parked_until IS NULL AND l.seq >= v_floor.lane_seq
            ORDER BY l.seq DESC LIMIT 1)
            UNION ALL
            (SELECT a.floor_rank, a.floor_at, a.floor_id
            FROM (
                SELECT n.channel_id, n.floor_rank, n.floor_at, n.floor_id FROM pgqueue_arrival AS n
                WHERE n.queue = p_queue AND NOT n.lazy AND n.xid >= v_floor.arrival_xid AND n.kind = 1
                ORDER BY n.xid LIMIT 200
            ) AS a
            WHERE a.channel_id = v_channel.id)
        ) AS s
        ORDER BY s.floor_rank, s.floor_at, s.floor_id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF v_held AND v_channel.limited THEN
        IF taken_at < v_lane.lease_floor THEN
            -- This call has been asleep since it read the clock, or the clock was set back: as in pgqueue_take.
            IF clock_timestamp() >= v_lane.lease_floor THEN
                contended := true;
                RETURN;
            END IF;
            v_lane.lease_floor := '-infinity';
        END IF;
        SELECT a.messages, a.room, a.next_at, a.lease_floor INTO v_may
        FROM pgqueue_allowance(v_channel.id, taken_at, p_limit, v_lane.next_at, v_lane.lease_floor) AS a;
        v_quota := v_may.messages;
    END IF;
    IF p_among IS NOT NULL THEN
        -- By their keys; the cast is as in pgqueue_announce.
        ids := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.id = ANY (p_among) AND m.channel_id = v_channel.id AND m.status::integer = 1
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT v_quota
            FOR UPDATE SKIP LOCKED);
    ELSE
        ids := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_channel.id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT v_quota
            FOR UPDATE SKIP LOCKED);
    END IF;
    IF v_held AND v_channel.limited THEN
        PERFORM pgqueue_leave_limited(
            ARRAY[v_lane.place], taken_at, ARRAY[cardinality(ids)], ids, ARRAY[v_may.room], ARRAY[v_may.next_at],
            ARRAY[v_may.lease_floor]);
    ELSIF v_held THEN
        -- Its new floor is the first message that is left, as seen after the lane was locked.
        UPDATE pgqueue_lane AS l
        SET seq = nextval('pgqueue_lane_seq'), served = 0, ahead = 0, floor_rank = n.rank, floor_at = n.dequeue_at, floor_id = n.id
        FROM (
            SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_channel.id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
                AND m.id <> ALL (ids)
            ORDER BY -m.priority, m.dequeue_at, m.id
            LIMIT 1
        ) AS n
        WHERE l.ctid = v_lane.place;
        IF NOT FOUND THEN
            DELETE FROM pgqueue_lane AS l WHERE l.ctid = v_lane.place;
        END IF;
    END IF;
END;
$$;
