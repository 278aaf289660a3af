-- Takes one message of a queue with limits and leases it: the short way of pgqueue_dequeue, which documents the
-- parameters.
-- It passes beside the gate of the queue if it can, else it holds the gate, and takes the turn of the first lane. What
-- it does not find there, the long way (pgqueue_dequeue_many) looks for; so does it decide by share for a channel that
-- holds leases. Beside the gate it looks by itself, because the long way needs the gate. p_looked: the caller has
-- brought messages back; p_line: what pgqueue_line said. The settings of the caller pin the plans.
-- Locks: as pgqueue_dequeue.
CREATE FUNCTION pgqueue_dequeue_guarded(
    p_queue text,
    p_lease interval,
    p_worker text,
    p_looked boolean,
    p_line pgqueue_ends
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    v_beside boolean := pg_current_xact_id_if_assigned() IS NULL;
    v_room pgqueue_queue_room := pgqueue_enter_beside(p_queue);
    v_now timestamptz;
    v_fresh boolean := p_line.fresh_head IS NOT NULL OR p_line.urgent;
    v_lane record;
    v_turn record;
    v_id bigint;
    v_delivery pgqueue_delivery;
BEGIN
    IF v_room.messages < 1 THEN
        v_room := pgqueue_queue_allowance(p_queue, 1);
    END IF;
    v_now := clock_timestamp();
    IF v_room.contended THEN
        RETURN;
    ELSIF v_room.messages < 1 THEN
        -- Only an expired lease can make room.
        IF pgqueue_bring_back(p_queue, 1, v_now, p_worker) > 0 THEN
            RETURN QUERY SELECT d.* FROM pgqueue_dequeue_many(p_queue, 1, p_lease, p_worker, true, true) AS d;
        END IF;
        RETURN;
    ELSIF p_line.urgent THEN
        PERFORM pgqueue_fold(p_queue, false, v_now);
        IF p_line.head IS NULL THEN PERFORM pgqueue_fold(p_queue, true, v_now); END IF;
    END IF;
    IF p_line.head IS NOT NULL THEN
        PERFORM pgqueue_fold(p_queue, true, v_now) FROM pgqueue_line(p_queue, v_now) AS n WHERE n.due;
        v_fresh := v_fresh OR FOUND;
    END IF;
    LOOP
        SELECT l.ctid AS place, l.channel_id, c.name, c.context, (l.seq + l.served) % 8 = 0 AS looks INTO v_lane
        FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh = v_fresh AND l.seq >= CASE WHEN v_fresh
            THEN coalesce(p_line.fresh_head, p_line.fresh_seq) ELSE coalesce(p_line.head, p_line.lane_seq) END
        ORDER BY l.seq LIMIT 1
        FOR UPDATE OF l SKIP LOCKED;
        EXIT WHEN FOUND OR NOT v_fresh;
        v_fresh := false;
    END LOOP;
    IF v_lane.place IS NOT NULL AND (v_lane.channel_id = ANY (v_room.channel_ids)) IS NOT TRUE THEN
        v_turn := pgqueue_take_turn(
            v_lane.place, coalesce(p_line.head, p_line.lane_seq), 1, 0, v_now, NULL, '{}', v_room);
        v_id := v_turn.ids[1];
    END IF;
    IF v_id IS NOT NULL THEN
        v_room.place := pgqueue_list_leases(p_queue, v_room, v_turn.ids, v_now, v_turn.cost, v_turn.wanted);
        v_id := CASE WHEN p_line.limits THEN pgqueue_lease_one(v_id, v_now, v_beside) ELSE v_id END;
    END IF;
    UPDATE pgqueue_message AS m
    SET status = 2, attempts = m.attempts + 1, leased_at = v_now, lease_expires_at = v_now + p_lease,
        lease_token = gen_random_uuid(), worker = p_worker, waits_for = NULL, promoted_for = NULL
    WHERE m.id = v_id
    RETURNING m.id, v_lane.name, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
        m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at, nullif(v_lane.context, '{}'),
        m.last_leased_at INTO v_delivery;
    IF FOUND THEN
        RETURN NEXT v_delivery;
    ELSIF v_room.side IS NOT NULL AND v_id IS DISTINCT FROM 0 THEN
        v_turn := pgqueue_take(p_queue, 1, p_room => v_room);
        IF v_turn.ids = '{}' AND NOT p_looked AND pgqueue_bring_back(p_queue, 1, v_now, p_worker) > 0 THEN
            v_turn := pgqueue_take(p_queue, 1, p_room => v_room);
        END IF;
        IF v_turn.ids <> '{}' THEN
            v_room.place := pgqueue_list_leases(p_queue, v_room, v_turn.ids, v_turn.taken_at, 1, NULL);
            RETURN QUERY SELECT d.* FROM pgqueue_lease(
                v_turn.ids, v_turn.taken_at, p_lease, p_worker, gen_random_uuid(), true, v_beside) AS d;
        END IF;
    ELSIF v_id IS DISTINCT FROM 0 THEN
        RETURN QUERY SELECT d.* FROM pgqueue_dequeue_many(
            p_queue, 1, p_lease, p_worker, true, p_looked, v_beside) AS d;
    END IF;
    IF v_lane.looks THEN
        PERFORM pgqueue_fold(p_queue, true, v_now) FROM pgqueue_line(p_queue, v_now) AS n WHERE n.lazy OR n.due;
    END IF;
END;
$$;
