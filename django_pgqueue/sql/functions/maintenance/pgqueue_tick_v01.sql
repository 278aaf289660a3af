-- Moves the floors up, so that no scan walks the dead entries that a pinned xmin horizon leaves, folds arrivals, brings
-- back lanes whose time has come, ends pauses whose time has come, and promotes messages that are due, wait for shared
-- limits with room, or are the first of their order key.
-- The maintenance of a worker runs it about five times a second. The line is correct without it.
-- Returns the number of promoted messages.
-- Locks: pg_try_advisory_xact_lock (one ticker at a time); lanes, arrivals and messages, SKIP LOCKED; as
--   pgqueue_resume_due.
CREATE FUNCTION pgqueue_tick(p_limit integer DEFAULT 1000)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_queue text;
    v_count integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(7205, 1) THEN
        RETURN 0;
    END IF;
    IF pg_current_xact_id_if_assigned() IS NULL AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM pgqueue_raise_floors();
    END IF;
    PERFORM pgqueue_resume_due();
    SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c;
    WHILE v_queue IS NOT NULL LOOP
        PERFORM pgqueue_fold(v_queue, false, clock_timestamp());
        PERFORM pgqueue_fold(v_queue, true, clock_timestamp());
        SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c WHERE c.queue > v_queue;
    END LOOP;
    v_count := pgqueue_promote(p_limit) + pgqueue_release_noted(NULL);
    RETURN v_count + pgqueue_promote_waiting(NULL, p_limit, clock_timestamp());
END;
$$;
