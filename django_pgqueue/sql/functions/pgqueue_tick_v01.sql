-- Moves the floors up, so that no scan walks the dead entries that a pinned xmin horizon leaves, and promotes what is due.
-- Caller: the maintenance of a worker, about five times a second; pgqueue_sweep. It is never needed for correctness of the line.
-- Locks: pg_try_advisory_xact_lock (one ticker at a time); lanes and messages, SKIP LOCKED. Returns how many messages were promoted.
--
-- A floor may only pass what no transaction can still show below it:
--   arrivals  an unseen one has the xid of a transaction that is running now; those older than the last tick are kept by name
--   lanes     a lane that is not visible yet took its seq in a transaction that has locked the table since before the last tick
CREATE FUNCTION pgqueue_tick(p_limit integer DEFAULT 1000)
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_old record;
    v_running xid8[];
    v_xmax xid8;
    v_xid xid8;
    v_seq bigint;
    v_next_seq bigint;
    v_parked timestamptz;
    v_queue text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(7205, 1) THEN
        RETURN 0;
    END IF;
    SELECT f.* INTO v_old FROM pgqueue_floor AS f ORDER BY f.id DESC LIMIT 1;
    IF v_old.late_xids <> '{}' THEN
        PERFORM pgqueue_restamp(v_old.late_xids);
    END IF;
    PERFORM pgqueue_absorb(v_old.arrival_xid, v_old.lane_seq, false);
    PERFORM pgqueue_absorb(v_old.arrival_xid, v_old.lane_seq, true);

    SELECT last_value INTO v_next_seq FROM pgqueue_lane_seq;
    v_xmax := pg_snapshot_xmax(pg_current_snapshot());
    v_running := ARRAY(SELECT x FROM pg_snapshot_xip(pg_current_snapshot()) AS x WHERE x < v_old.next_xid);
    v_xid := least(
        v_old.next_xid,
        (SELECT a.xid FROM pgqueue_arrival AS a WHERE NOT a.lazy AND a.xid >= v_old.arrival_xid ORDER BY a.xid LIMIT 1),
        (SELECT a.xid FROM pgqueue_arrival AS a WHERE a.lazy AND a.xid >= v_old.arrival_xid ORDER BY a.xid LIMIT 1));

    v_seq := v_old.lane_seq;
    v_parked := v_old.parked_from;
    IF NOT pgqueue_lane_is_held(v_running) THEN
        v_seq := v_old.next_lane_seq;
        v_parked := v_old.ticked_at;
        SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c;
        WHILE v_queue IS NOT NULL LOOP
            v_seq := least(v_seq, (
                SELECT l.seq FROM pgqueue_lane AS l
                WHERE l.queue = v_queue AND l.parked_until IS NULL AND l.seq >= v_old.lane_seq ORDER BY l.seq LIMIT 1));
            v_parked := least(v_parked, (
                SELECT l.parked_until FROM pgqueue_lane AS l
                WHERE l.queue = v_queue AND l.parked_until >= v_old.parked_from ORDER BY l.parked_until LIMIT 1));
            SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c WHERE c.queue > v_queue;
        END LOOP;
    END IF;

    INSERT INTO pgqueue_floor (ticked_at, arrival_xid, late_xids, lane_seq, parked_from, next_xid, next_lane_seq)
    VALUES (
        v_now, v_xid,
        ARRAY(
            SELECT x FROM unnest(v_running) AS x WHERE x < v_xid
            UNION SELECT a.xid FROM pgqueue_arrival AS a WHERE a.lazy = ANY ('{f,t}') AND a.xid = ANY (v_old.late_xids)),
        v_seq, v_parked, v_xmax, v_next_seq);
    DELETE FROM pgqueue_floor AS f WHERE f.id < (SELECT max(id) - 10 FROM pgqueue_floor);
    RETURN pgqueue_promote(p_limit);
END;
$$;
