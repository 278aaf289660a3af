-- Returns the earliest archived_at of the rows that p_snapshot shows and the last measurement did not: the start of the
-- next read.
-- Most transactions that p_snapshot shows began after the last measurement. Of those that were open then and have ended
-- since, the oldest began after a measurement whose snapshot lies before it. Ten seconds more are read: a process may
-- have been stopped between its reading of the clock and its first write. It is an hour at most.
-- Locks: none.
CREATE FUNCTION pgqueue_measure_since(p_last pgqueue_measurement, p_snapshot pg_snapshot, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_since timestamptz := p_last.measured_at;
    v_ended xid8;
BEGIN
    SELECT x INTO v_ended FROM pg_snapshot_xip(p_last.snapshot) AS x
    WHERE x NOT IN (SELECT y FROM pg_snapshot_xip(p_snapshot) AS y)
    ORDER BY x LIMIT 1;
    IF v_ended IS NOT NULL THEN
        SELECT m.measured_at INTO v_since FROM pgqueue_measurement AS m
        WHERE pg_snapshot_xmax(m.snapshot) <= v_ended
        ORDER BY m.id DESC LIMIT 1;
    END IF;
    RETURN greatest(p_now - interval '1 hour', least(v_since, p_now) - interval '10 seconds');
END;
$$;
