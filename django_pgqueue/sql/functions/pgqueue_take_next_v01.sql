-- Takes one message from the first free lane of a queue, or of one that is held: the short way of pgqueue_take for a limit of one, while
-- no news need folding.
-- Caller: pgqueue_take, with its reading of the clock.
-- Returns ids: the message, locked, or none: then the long way decides; fold: true once in eight turns or messages.
-- Locks: a lane and its message, SKIP LOCKED.
CREATE FUNCTION pgqueue_take_next(p_queue text, p_now timestamptz, OUT ids bigint[], OUT fold boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    v_lane record;
    v_may record;
    v_quota integer := 1;
    v_rotate boolean;
BEGIN
    ids := '{}';
    SELECT n.place, n.seq, n.channel_id, n.floor_rank, n.floor_at, n.floor_id, n.served, n.next_at, n.lease_floor, n.weight, n.limited,
        CASE
            WHEN n.seq IS NULL THEN (
                SELECT l.seq FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= f.lane_seq ORDER BY l.seq LIMIT 1)
        END AS head,
        -- A clock that seems to go back, news as in pgqueue_take, or a pause.
        coalesce(p_now < n.lease_floor, false)
        OR EXISTS (SELECT FROM pgqueue_arrival AS a WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= f.arrival_xid)
        OR f.late_xids <> '{}' AND EXISTS (SELECT FROM pgqueue_late_news(p_queue, f.late_xids))
        OR EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) AS unusual
    INTO v_lane
    FROM pgqueue_floor_now() AS f
    LEFT JOIN LATERAL (
        SELECT l.ctid AS place, l.seq, l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.served, l.next_at, l.lease_floor, c.weight,
            pgqueue_is_limited(c) AS limited
        FROM pgqueue_lane AS l
        JOIN pgqueue_channel AS c ON c.id = l.channel_id
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.seq >= f.lane_seq
        ORDER BY l.seq
        LIMIT 1
        FOR UPDATE OF l SKIP LOCKED
    ) AS n ON true;
    fold := coalesce((v_lane.seq + v_lane.served) % 8 = 0, false);
    IF v_lane.unusual IS NOT FALSE THEN
        RETURN;
    ELSIF v_lane.seq IS NULL THEN
        -- Others hold all lanes: what one hot channel has is shared.
        IF v_lane.head IS NOT NULL THEN
            ids := pgqueue_take_shared(p_queue, 1, v_lane.head, NULL, NULL, '{}');
        END IF;
        RETURN;
    END IF;
    IF v_lane.limited THEN
        SELECT a.messages, a.room, a.next_at, a.lease_floor INTO v_may
        FROM pgqueue_allowance(v_lane.channel_id, p_now, v_quota, v_lane.next_at, v_lane.lease_floor) AS a;
        v_quota := v_may.messages;
    END IF;
    ids := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.channel_id = v_lane.channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT v_quota
        FOR UPDATE SKIP LOCKED);
    IF v_lane.limited THEN
        PERFORM pgqueue_leave_limited(
            ARRAY[v_lane.place], p_now, ARRAY[cardinality(ids)], ids, ARRAY[v_may.room], ARRAY[v_may.next_at],
            ARRAY[v_may.lease_floor]);
        RETURN;
    ELSIF ids = '{}' THEN
        RETURN;
    END IF;
    -- The new floor is the first message that is left, locked by others or not, as seen after the lane was locked.
    v_rotate := v_lane.served + 1 >= v_lane.weight;
    UPDATE pgqueue_lane AS l
    SET seq = CASE WHEN v_rotate THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
        served = CASE WHEN v_rotate THEN 0 ELSE l.served + 1 END,
        floor_rank = n.rank,
        floor_at = n.dequeue_at,
        floor_id = n.id
    FROM (
        SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
        WHERE m.channel_id = v_lane.channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            AND m.id <> ids[1]
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT 1
    ) AS n
    WHERE l.ctid = v_lane.place;
    IF NOT FOUND THEN
        DELETE FROM pgqueue_lane AS l WHERE l.ctid = v_lane.place;
    END IF;
END;
$$;
