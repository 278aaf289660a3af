-- Takes messages of a queue for the channels that hold less than their share of its leases, in the order of the line;
-- what these leave goes to the others.
-- The caller holds the gate of the queue. p_room: what it allows, with the channel of each live lease. by_share: the
-- share of a channel is its part, by weight, of all leases after this call; the weights are those of the channels that
-- hold leases or stand among the first 100 lanes. Without it the share is not looked at. most: what one channel may
-- hold in any case.
-- Returns as pgqueue_take does. While another transaction holds a lane or an arrival, which may be of a channel below
--   its share, no channel gets more than its share: contended.
-- Locks: arrivals, lanes and messages, all SKIP LOCKED.
CREATE FUNCTION pgqueue_take_by_share(
    p_queue text,
    p_room pgqueue_queue_room,
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
    v_lane record;
    v_turn record;
    v_holders bigint[] := p_room.channel_ids;
    v_weights record;
    v_cap integer;
    v_full bigint[];
    v_seen bigint[] := '{}';
    v_fresh boolean;
    v_from bigint;
BEGIN
    ids := '{}';
    taken_at := clock_timestamp();
    contended := false;
    cost := 0;
    SELECT coalesce(n.head, n.lane_seq) AS lane_seq, coalesce(n.fresh_head, n.fresh_seq) AS fresh_seq, n.urgent, n.lazy,
        n.due
    INTO v_line
    FROM pgqueue_line(p_queue, taken_at) AS n;
    -- An arrival may be of a channel that waits without a lane in the line: all are folded before a channel gets more
    -- than its share.
    IF v_line.urgent THEN
        contended := pgqueue_fold(p_queue, false, taken_at);
    END IF;
    IF v_line.lazy OR v_line.due THEN
        contended := pgqueue_fold(p_queue, true, taken_at) OR contended;
    END IF;
    v_weights := pgqueue_share_weights(p_queue, p_room.channel_ids, v_line.lane_seq, v_line.fresh_seq);
    FOR v_pass IN CASE WHEN p_room.by_share THEN 1 ELSE 2 END..2 LOOP
        -- A lane that another transaction holds may be of a channel below its share: no other one gets more now.
        -- So may be one whose arrival another transaction folds, or that came since this call folded.
        IF v_pass = 2 AND p_room.by_share AND NOT contended AND cardinality(ids) < p_room.messages
            AND cardinality(v_seen) < 900
        THEN
            contended := EXISTS (
                SELECT FROM pgqueue_lane AS l
                WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= v_line.fresh_seq
                    AND l.channel_id <> ALL (v_seen))
                OR EXISTS (
                    SELECT FROM pgqueue_lane AS l
                    WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= v_line.lane_seq
                        AND l.channel_id <> ALL (v_seen))
                OR EXISTS (
                    SELECT FROM pgqueue_line(p_queue, NULL) AS n
                    CROSS JOIN unnest(ARRAY[false, true]) AS u (lazy)
                    JOIN pgqueue_arrival AS a ON a.queue = p_queue AND a.lazy = u.lazy AND a.xid >= n.arrival_xid
                    WHERE a.floor_id IS NOT NULL AND a.channel_id <> ALL (v_seen));
        END IF;
        EXIT WHEN contended AND p_room.by_share AND v_pass = 2;
        v_full := '{}';
        v_fresh := true;
        v_from := v_line.fresh_seq;
        FOR v_round IN 1..1000 LOOP
            EXIT WHEN cardinality(ids) = p_room.messages OR wanted IS NOT NULL;
            SELECT l.ctid AS place, l.seq, l.channel_id, c.weight INTO v_lane
            FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh = v_fresh AND l.seq >= v_from
                AND l.channel_id <> ALL (v_full)
            ORDER BY l.seq LIMIT 1
            FOR UPDATE OF l SKIP LOCKED;
            IF NOT FOUND THEN
                EXIT WHEN NOT v_fresh;
                v_fresh := false;
                v_from := v_line.lane_seq;
                CONTINUE;
            END IF;
            v_seen := v_seen || v_lane.channel_id;
            v_cap := least(p_room.most, CASE WHEN v_pass = 1 THEN ceil((cardinality(p_room.channel_ids)
                + p_room.messages) * v_lane.weight / v_weights.total::double precision) END)
                - cardinality(array_positions(v_holders, v_lane.channel_id));
            IF v_cap <= 0 THEN
                v_full := v_full || v_lane.channel_id;
                CONTINUE;
            END IF;
            v_turn := pgqueue_take_turn(
                v_lane.place, v_line.lane_seq, least(v_cap, p_room.messages - cardinality(ids)),
                p_room.messages / v_weights.waiting::double precision, taken_at, NULL, ids, p_room);
            ids := ids || v_turn.ids;
            cost := cost + coalesce(v_turn.cost, 0);
            p_room.tokens := p_room.tokens - coalesce(v_turn.cost, 0);
            wanted := v_turn.wanted;
            contended := contended OR v_turn.contended;
            v_holders := v_holders || array_fill(v_lane.channel_id, ARRAY[cardinality(v_turn.ids)]);
            v_from := v_lane.seq + 1;
            IF v_turn.ids = '{}' THEN
                v_full := v_full || v_lane.channel_id;
            END IF;
        END LOOP;
    END LOOP;
    contended := contended OR ids = '{}' AND wanted IS NULL AND pgqueue_is_contended(ARRAY[p_queue]);
END;
$$;
