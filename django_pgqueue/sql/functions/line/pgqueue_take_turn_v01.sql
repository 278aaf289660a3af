-- Gives a lane its turn: takes messages within its share and its limits, and moves the lane on.
-- p_place: the lane, which the caller has locked; p_line: where the line begins; p_limit: how many it may take; what
-- this cuts from the turn, the next call takes first; p_share: a lane's part of the call for a weight of 1, if it begins
-- a round (pgqueue_round); NULL: the call is for this channel alone, whatever its turn is; p_now: the caller's reading
-- of the clock; p_among: as in pgqueue_take; p_taken: the messages of a turn that it had in this call, which a second
-- one would find again, because the floor may stay behind them, and which are not leased yet; p_room: what the queue
-- allows, with the tokens that its rate has left, NULL for a queue without limits.
-- Returns seq: where the lane stood, NULL if it does not stand in the line; ids: locked, in the order of service;
--   contended: this call has been stopped since the clock was read, and its leases would not be counted: no message is
--   taken; cost: of the messages; wanted: the tokens of the queue that the next one waits for, which keeps its place in
--   the line meanwhile.
-- Locks: messages, SKIP LOCKED; and as pgqueue_take_ordered and pgqueue_take_keyed.
CREATE FUNCTION pgqueue_take_turn(
    p_place tid,
    p_line bigint,
    p_limit integer,
    p_share double precision,
    p_now timestamptz,
    p_among bigint[],
    p_taken bigint[],
    p_room pgqueue_queue_room,
    OUT seq bigint,
    OUT ids bigint[],
    OUT contended boolean,
    OUT cost bigint,
    OUT wanted integer
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_lane record;
    v_may record;
    v_count integer;
    v_turn integer;
    v_done boolean;
    v_keyed boolean;
    v_new bigint[];
    v_seen bigint[];
    v_priced boolean := true;
BEGIN
    ids := '{}';
    SELECT l.*, c.weight, c.ordered, pgqueue_is_limited(c) OR p_room.tokens IS NOT NULL AS limited, p_limit AS quota,
        r.round AS present INTO v_lane
    FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id CROSS JOIN LATERAL pgqueue_round(
        l.queue, p_line, l.fresh, l.round, l.served, greatest(ceil(p_share), 1)::integer) AS r
    WHERE l.ctid = p_place AND l.parked_until IS NULL;
    seq := v_lane.seq;
    contended := false;
    v_turn := pgqueue_turn(v_lane.present, v_lane.weight);
    v_lane.quota := least(p_limit, CASE WHEN p_share IS NOT NULL THEN greatest(v_turn - v_lane.served, 1) END);
    IF v_lane.limited THEN
        SELECT a.* INTO v_may FROM pgqueue_allowance(v_lane.channel_id, p_now, v_lane.quota, v_lane.next_at,
            v_lane.debt, v_lane.lease_floor, v_lane.current_id, p_taken) AS a;
        contended := NOT FOUND;
        v_lane.quota := v_may.messages;
    END IF;
    IF seq IS NULL OR contended THEN RETURN; END IF;
    IF v_lane.ordered AND v_lane.quota > 0 THEN
        SELECT o.ids, o.current_id INTO ids, v_lane.current_id
        FROM pgqueue_take_ordered(v_lane.queue, v_lane.channel_id, v_lane.current_id, v_lane.floor_rank,
            v_lane.floor_at, v_lane.floor_id, p_now, p_among) AS o;
    ELSIF p_among IS NOT NULL THEN
        ids := pgqueue_take_keyed(pgqueue_lock_among(p_among, ARRAY[v_lane.channel_id], v_lane.quota));
    ELSIF v_lane.quota > 0 THEN
        SELECT coalesce(array_agg(n.id), '{}'), count(n.order_key) > 0, count(n.order_key) + count(n.cost) > 0
        INTO ids, v_keyed, v_priced FROM (SELECT m.id, m.order_key, m.cost FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1 AND m.id <> ALL (p_taken)
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT v_lane.quota FOR UPDATE SKIP LOCKED) AS n;
        IF v_keyed THEN
            -- Those whose turn it is not yet among the messages of their key are set aside, and others come in their
            -- place: 1,000 beyond the quota at most, because the caller holds locks meanwhile.
            v_new := ids;
            v_seen := p_taken;
            ids := '{}';
            WHILE v_new <> '{}' LOOP
                ids := ids || pgqueue_take_keyed(v_new);
                v_seen := v_seen || v_new;
                EXIT WHEN cardinality(ids) >= v_lane.quota
                    OR cardinality(v_seen) > cardinality(p_taken) + v_lane.quota + 1000;
                v_new := ARRAY(
                    SELECT m.id FROM pgqueue_message AS m
                    WHERE m.channel_id = v_lane.channel_id AND m.status = 1 AND m.id <> ALL (v_seen)
                        AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
                    ORDER BY -m.priority, m.dequeue_at, m.id LIMIT v_lane.quota - cardinality(ids)
                    FOR UPDATE SKIP LOCKED);
            END LOOP;
        END IF;
    END IF;
    cost := cardinality(ids);
    IF v_lane.limited AND (v_priced OR cost > p_room.tokens) THEN
        SELECT p.ids, p.cost, p.slack, p.queue_wanted INTO ids, cost, v_may.slack, wanted FROM pgqueue_pay(ids,
            v_may.tokens, v_may.burst, v_may.step, p_room.tokens, p_room.burst, v_turn - v_lane.served) AS p;
    END IF;
    v_count := cardinality(ids);
    v_lane.ahead := v_lane.ahead - v_count;
    IF v_lane.quota > 0 AND (v_count = 0 OR v_lane.ahead < 1) THEN
        -- Finds the first message that is left, locked by others or not. Until then, the floor may stay behind.
        SELECT count(*), coalesce((array_agg(n.rank))[1], 32767), coalesce((array_agg(n.dequeue_at))[1], 'infinity'),
            coalesce((array_agg(n.id))[1], 0)
        INTO v_lane.ahead, v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id
        FROM (
            SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1 AND m.id <> ALL (ids || p_taken)
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 32
        ) AS n;
    END IF;
    v_lane.parked_until := CASE WHEN v_lane.floor_at = 'infinity' THEN v_lane.floor_at END;
    IF v_lane.limited THEN
        v_lane.lease_floor := v_may.lease_floor;
        v_lane.next_at := v_may.next_at + pgqueue_token_time(v_may.step, cost);
        v_lane.debt := nullif(greatest(cost - floor(v_may.tokens), 0), 0);
        v_lane.parked_until := coalesce(v_lane.parked_until, CASE WHEN v_may.room <= v_count THEN v_may.look_at END,
            CASE WHEN v_lane.next_at - v_may.slack > p_now THEN v_lane.next_at - v_may.slack END);
    END IF;
    v_done := v_count = 0 AND wanted IS NULL OR v_lane.served + v_count >= v_turn
        OR v_lane.parked_until IS NOT NULL;
    UPDATE pgqueue_lane AS l
    SET seq = CASE WHEN v_done THEN nextval('pgqueue_lane_seq') ELSE l.seq END, fresh = l.fresh AND NOT v_done,
        served = CASE WHEN v_done THEN 0 ELSE l.served + v_count END, ahead = v_lane.ahead, debt = v_lane.debt,
        round = v_lane.present, current_id = v_lane.current_id, next_at = v_lane.next_at,
        parked_until = v_lane.parked_until, lease_floor = v_lane.lease_floor, floor_rank = v_lane.floor_rank,
        floor_at = v_lane.floor_at, floor_id = v_lane.floor_id
    WHERE l.ctid = p_place;
END;
$$;
