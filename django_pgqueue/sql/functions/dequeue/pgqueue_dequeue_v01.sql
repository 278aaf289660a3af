-- Leases up to p_limit messages of a queue to a worker for p_lease. The attempt is counted now, so a crash of the
-- worker counts.
-- Runs in a transaction of its own. One message takes the short way here: for few rows, several short statements cost
-- less than one large one; pgqueue_dequeue_guarded is the same for a queue with limits. Every other call takes the long
-- way (pgqueue_dequeue_many), and so does, most often, one message that the short way does not find. Before a look at
-- an empty line, it brings back what can be served again; the many dequeues of idle consumers end there. On an empty
-- line, arrivals that can wait are folded at once: they may be of the same channel, and come first. A lone message does
-- not stand in the line (pgqueue_receive). All lanes that come into an empty line are fresh. Other arrivals that can
-- wait are folded about once in eight messages, so that they need no ticker; but at once when the time of a lane has
-- come, which would lose tokens of its rate.
-- The token fences heartbeat and settlement. It is random, because a counter can be issued twice after a failover that
-- lost commits.
-- Returns the messages in the order of service, and at once: a message that another transaction holds is left out.
--   After an empty answer, pgqueue_is_contended says whether that is the reason; then ask again soon. It waits for a
--   limit that others hold for 10 ms at most (pgqueue_hold_limit, pgqueue_lock_gate).
-- Locks: the gate of a queue with limits, lanes, messages and shared limits, all SKIP LOCKED.
-- Errors: PGQ07 invalid argument.
-- Plans are pinned: the tables churn, and statistics taken at a bad moment must not turn an index look-up into a scan.
CREATE FUNCTION pgqueue_dequeue(
    p_queue text DEFAULT 'default',
    p_limit integer DEFAULT 1,
    p_lease interval DEFAULT '15 seconds',
    p_worker text DEFAULT NULL
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_beside boolean := pg_current_xact_id_if_assigned() IS NULL;
    v_line record;
    v_lane record;
    v_fresh boolean;
    v_back boolean := false;
    v_done boolean;
    v_folds boolean;
    v_long boolean;
    v_ids bigint[];
    v_id bigint;
    v_key text;
    v_delivery pgqueue_delivery;
BEGIN
    IF NOT pgqueue_may_take(p_queue, p_limit, p_lease) THEN
        PERFORM pgqueue_refuse_take(p_queue, p_limit, p_lease);
    END IF;
    SELECT n.arrival_xid, n.late_xids, n.lane_seq, n.fresh_seq, n.head, n.fresh_head, n.urgent, n.guarded, n.limits,
        n.due INTO v_line FROM pgqueue_line(p_queue, v_now) AS n;
    v_fresh := v_line.fresh_head IS NOT NULL OR v_line.urgent;
    IF v_line.head IS NULL AND NOT v_fresh THEN
        SELECT n.lazy OR n.due, n.expired OR n.scheduled OR n.waiting OR n.noted INTO v_fresh, v_back
        FROM pgqueue_line(p_queue, v_now) AS n;
        v_back := v_back AND NOT v_fresh AND pgqueue_bring_back(p_queue, p_limit, v_now, p_worker) > 0;
        v_fresh := v_fresh OR v_back;
        IF NOT v_fresh THEN RETURN; END IF; v_line.urgent := v_back OR v_line.guarded;
        PERFORM pgqueue_fold(p_queue, true, v_now) WHERE NOT v_line.urgent AND p_limit = 1;
    END IF;
    IF p_limit > 1 THEN
        RETURN QUERY SELECT * FROM pgqueue_dequeue_many(p_queue, p_limit, p_lease, p_worker, v_line.guarded, v_back);
        RETURN;
    ELSIF v_line.guarded THEN
        RETURN QUERY SELECT d.* FROM pgqueue_dequeue_guarded(p_queue, p_lease, p_worker, v_back, ROW(v_line.lane_seq,
            v_line.fresh_seq, v_line.head, v_line.fresh_head, v_line.urgent, v_line.limits)::pgqueue_ends) AS d;
        RETURN;
    ELSIF v_line.urgent THEN
        v_lane := pgqueue_receive(p_queue, v_now, v_line.arrival_xid, v_line.late_xids, v_line.head, v_line.fresh_head);
        v_id := v_lane.id;
    END IF;
    IF v_id IS NULL THEN
        IF v_line.due AND v_line.head IS NOT NULL THEN
            v_fresh := pgqueue_fold(p_queue, true, v_now) IS NOT NULL;
        END IF;
        LOOP
            SELECT l.ctid AS place, l.channel_id, l.floor_rank, l.floor_at, l.floor_id, l.ahead, c.name, c.context,
                pgqueue_is_limited(c) AS limited, c.weight, l.served, r.round, (l.seq + l.served) % 8 = 0 AS looks
            INTO v_lane FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id CROSS JOIN LATERAL
                pgqueue_round(p_queue, coalesce(v_line.head, v_line.lane_seq), l.fresh, l.round, l.served, 1) AS r
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh = v_fresh AND l.seq >= CASE WHEN v_fresh
                THEN coalesce(v_line.fresh_head, v_line.fresh_seq) ELSE coalesce(v_line.head, v_line.lane_seq) END
            ORDER BY l.seq LIMIT 1 FOR UPDATE OF l SKIP LOCKED;
            EXIT WHEN FOUND OR NOT v_fresh OR v_line.head IS NULL; v_fresh := false;
        END LOOP;
        IF v_lane.limited OR v_lane.ahead < 2 THEN
            v_id := (pgqueue_take_turn(
                v_lane.place, coalesce(v_line.head, v_line.lane_seq), 1, 0, v_now, NULL, '{}', NULL)).ids[1];
        ELSIF v_lane.place IS NOT NULL THEN
            SELECT m.id, m.order_key INTO v_id, v_key FROM pgqueue_message AS m
            WHERE m.channel_id = v_lane.channel_id AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1 FOR UPDATE SKIP LOCKED;
            v_id := CASE WHEN v_key IS NULL THEN v_id ELSE pgqueue_take_key(v_id, v_lane.channel_id, v_key) END;
            v_done := v_lane.served + 1 >= pgqueue_turn(v_lane.round, v_lane.weight);
            UPDATE pgqueue_lane AS l
            SET seq = CASE WHEN v_done THEN nextval('pgqueue_lane_seq') ELSE l.seq END, ahead = l.ahead - 1,
                fresh = v_fresh AND NOT v_done, served = CASE WHEN v_done THEN 0 ELSE l.served + 1 END,
                round = v_lane.round WHERE l.ctid = v_lane.place AND v_id IS NOT NULL;
        END IF;
    END IF;
    v_id := CASE WHEN v_line.limits THEN pgqueue_lease_one(v_id, v_now, v_beside) ELSE v_id END;
    UPDATE pgqueue_message AS m
    SET status = 2, attempts = m.attempts + 1, leased_at = v_now, lease_expires_at = v_now + p_lease,
        lease_token = gen_random_uuid(), worker = p_worker, waits_for = NULL, promoted_for = NULL
    WHERE m.id = v_id
    RETURNING m.id, v_lane.name, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
        m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at, nullif(v_lane.context, '{}'),
        m.last_leased_at INTO v_delivery;
    IF FOUND THEN
        RETURN NEXT v_delivery;
    ELSIF v_id IS DISTINCT FROM 0 THEN
        v_long := true;
        IF v_lane.place IS NULL AND NOT v_line.limits THEN
            -- Other transactions hold all lanes of the line. There may be messages beside those that they take; a line
            -- that is short has none most often, while many consumers ask at once. So the long way is taken only if
            -- something waits outside of the line, or if a lane is free after the arrivals that can wait are folded. If
            -- the line was empty, they were folded above, so another transaction folds what is left.
            v_now := clock_timestamp();
            v_ids := pgqueue_take_shared(p_queue, 1, coalesce(v_line.head, v_line.lane_seq),
                coalesce(v_line.fresh_head, v_line.fresh_seq), '{}', NULL, NULL);
            IF v_ids <> '{}' THEN
                RETURN QUERY SELECT d.* FROM pgqueue_lease(v_ids, v_now, p_lease, p_worker, gen_random_uuid()) AS d;
                RETURN;
            END IF;
            SELECT coalesce(v_line.head, v_line.fresh_head) IS NOT NULL AND (n.lazy OR n.due),
                n.expired OR n.scheduled OR n.waiting OR n.noted INTO v_folds, v_long
            FROM pgqueue_line(p_queue, v_now) AS n;
            IF v_folds AND NOT v_long THEN
                PERFORM pgqueue_fold(p_queue, true, v_now);
                FOREACH v_fresh IN ARRAY ARRAY[true, false] LOOP
                    PERFORM FROM pgqueue_lane AS l
                    WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh = v_fresh
                        AND l.seq >= CASE WHEN v_fresh THEN coalesce(v_line.fresh_head, v_line.fresh_seq)
                            ELSE coalesce(v_line.head, v_line.lane_seq) END
                    ORDER BY l.seq LIMIT 1 FOR UPDATE SKIP LOCKED;
                    v_long := FOUND;
                    EXIT WHEN v_long;
                END LOOP;
            END IF;
        END IF;
        IF v_long THEN
            RETURN QUERY SELECT d.* FROM pgqueue_dequeue_many(
                p_queue, 1, p_lease, p_worker, false, v_back, v_beside) AS d;
        END IF;
    END IF;
    IF v_lane.looks THEN
        PERFORM pgqueue_fold(p_queue, true, v_now) FROM pgqueue_line(p_queue, v_now) AS n WHERE n.lazy OR n.due;
    END IF;
END;
$$;
