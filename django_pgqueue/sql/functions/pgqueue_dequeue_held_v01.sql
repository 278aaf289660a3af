-- Takes one message and leases it, after the short way of pgqueue_dequeue has found none that is free.
-- p_held: other transactions hold all lanes of the line, and there are no shared limits. There may be messages beside
-- those that they take; a line that is short has none most often, while many consumers ask at once. So this call takes
-- the long way (pgqueue_dequeue_many) only if something waits outside of the line, or if a lane is free after the
-- arrivals that can wait are folded. If the line was empty, the caller has folded them, so another transaction folds
-- what is left. p_looked: the caller has brought messages back; p_lane_seq to p_fresh_head: as pgqueue_line returned
-- them. The settings of the caller pin the plans.
-- Locks: as pgqueue_dequeue.
CREATE FUNCTION pgqueue_dequeue_held(
    p_queue text,
    p_lease interval,
    p_worker text,
    p_looked boolean,
    p_held boolean,
    p_lane_seq bigint,
    p_fresh_seq bigint,
    p_head bigint,
    p_fresh_head bigint
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_folds boolean;
    v_waits boolean := true;
BEGIN
    IF p_held THEN
        v_ids := pgqueue_take_shared(
            p_queue, 1, coalesce(p_head, p_lane_seq), coalesce(p_fresh_head, p_fresh_seq), '{}', NULL, NULL);
        IF v_ids <> '{}' THEN
            RETURN QUERY SELECT d.* FROM pgqueue_lease(v_ids, v_now, p_lease, p_worker, gen_random_uuid()) AS d;
            RETURN;
        END IF;
        SELECT coalesce(p_head, p_fresh_head) IS NOT NULL AND (n.lazy OR n.due),
            n.expired OR n.scheduled OR n.waiting OR n.noted INTO v_folds, v_waits
        FROM pgqueue_line(p_queue, v_now) AS n;
        IF v_folds AND NOT v_waits THEN
            PERFORM pgqueue_fold(p_queue, true, v_now);
            PERFORM FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh
                AND l.seq >= coalesce(p_fresh_head, p_fresh_seq)
            ORDER BY l.seq LIMIT 1 FOR UPDATE SKIP LOCKED;
            v_waits := FOUND;
        END IF;
        IF v_folds AND NOT v_waits THEN
            PERFORM FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh
                AND l.seq >= coalesce(p_head, p_lane_seq)
            ORDER BY l.seq LIMIT 1 FOR UPDATE SKIP LOCKED;
            v_waits := FOUND;
        END IF;
    END IF;
    IF v_waits THEN
        RETURN QUERY SELECT d.* FROM pgqueue_dequeue_many(p_queue, 1, p_lease, p_worker, false, p_looked) AS d;
    END IF;
END;
$$;
