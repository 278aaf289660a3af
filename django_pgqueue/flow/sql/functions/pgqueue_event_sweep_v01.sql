-- Looks again at events for which a wait or a notification could not tell (pgqueue_event_unsure). A sweep runs it.
-- Locks: the advisory lock of each event, by a try-lock; as pgqueue_event_wake.
CREATE FUNCTION pgqueue_event_sweep()
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_name text;
BEGIN
    -- The oldest first, so that each has its turn.
    FOR v_name IN
        SELECT u.name FROM pgqueue_event_unsure AS u GROUP BY u.name ORDER BY min(u.noted_at), u.name LIMIT 1000
    LOOP
        IF pg_try_advisory_xact_lock(hashtextextended('pgqueue_event:' || v_name, 0)) THEN
            DELETE FROM pgqueue_event_unsure AS u WHERE u.name = v_name;
            PERFORM pgqueue_event_wake(v_name);
        END IF;
    END LOOP;
END;
$$;
