-- Keeps the figures of the dashboard: adds the messages settled since the last time to pgqueue_activity, counts the
-- present ones into pgqueue_backlog, and removes rows that are older than a day.
-- It does nothing when a measurement ran within p_every. Counting takes at most a twentieth of the time: after a count
-- of two seconds the next one is forty seconds later. p_every '0': measures and counts in any case. A message settled
-- more than an hour before it could be seen is left out. In a transaction that has written before, settled messages
-- wait for the next time.
-- Returns how many were settled, how many of them died, and whether it counted.
-- Locks: pg_try_advisory_xact_lock (one at a time); SHARE UPDATE EXCLUSIVE of today's partition of the archive, for 100
--   ms at most, else it is left for the next time.
CREATE FUNCTION pgqueue_measure(p_every interval DEFAULT '15 seconds')
RETURNS TABLE (settled bigint, dead bigint, counted boolean)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_snapshot pg_snapshot;
    v_last pgqueue_measurement;
    v_next pgqueue_measurement;
    v_since timestamptz;
    v_ended xid8;
BEGIN
    settled := 0;
    dead := 0;
    counted := false;
    IF NOT pg_try_advisory_xact_lock(7205, 3) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT m.* INTO v_last FROM pgqueue_measurement AS m ORDER BY m.id DESC LIMIT 1;
    IF p_every > '0' AND v_last.measured_at <= v_now AND v_last.measured_at > v_now - p_every * 0.9 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_next := v_last;
    v_next.id := coalesce(v_last.id, 0) + 1;
    -- Rows of this transaction would be in the snapshot before they are all there.
    IF v_last.id IS NULL OR pg_current_xact_id_if_assigned() IS NULL THEN
        v_snapshot := pg_current_snapshot();
        -- A snapshot from the future comes from a dump of an older cluster, which was restored: begin anew.
        IF pg_snapshot_xmax(v_last.snapshot) <= pg_snapshot_xmax(v_snapshot) THEN
            -- Most transactions that the snapshot shows began after the last measurement. Of those that were open then
            -- and have ended since, the oldest began after a measurement whose snapshot lies before it. Ten seconds
            -- more are read: a process may have been stopped between its reading of the clock and its first write.
            v_since := v_last.measured_at;
            SELECT x INTO v_ended FROM pg_snapshot_xip(v_last.snapshot) AS x
            WHERE x NOT IN (SELECT y FROM pg_snapshot_xip(v_snapshot) AS y)
            ORDER BY x LIMIT 1;
            IF v_ended IS NOT NULL THEN
                SELECT m.measured_at INTO v_since FROM pgqueue_measurement AS m
                WHERE pg_snapshot_xmax(m.snapshot) <= v_ended
                ORDER BY m.id DESC LIMIT 1;
            END IF;
            SELECT s.settled, s.dead INTO settled, dead
            FROM pgqueue_measure_settled(
                greatest(v_now - interval '1 hour', least(v_since, v_now) - interval '10 seconds'), v_last.snapshot,
                v_snapshot) AS s;
        END IF;
        v_next.measured_at := v_now;
        v_next.snapshot := v_snapshot;
    END IF;
    IF p_every <= '0' OR v_last.counted_at + greatest(p_every * 0.9, v_last.counted_in * 20) > v_now IS NOT TRUE
        OR v_last.counted_at > v_now THEN
        counted := true;
        v_next.counted_at := clock_timestamp();
        PERFORM pgqueue_measure_backlog();
        v_next.counted_in := clock_timestamp() - v_next.counted_at;
    END IF;
    INSERT INTO pgqueue_measurement (id, measured_at, snapshot, counted_at, counted_in)
    VALUES (v_next.id, v_next.measured_at, v_next.snapshot, v_next.counted_at, v_next.counted_in);
    PERFORM pgqueue_measure_tidy(v_last.measured_at, v_now);
    RETURN NEXT;
END;
$$;
