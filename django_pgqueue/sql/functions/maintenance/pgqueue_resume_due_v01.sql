-- Resumes the channels, queues and shared limits whose pause has an end that has come, at most p_limit channels a call.
-- Returns their number.
-- Locks: their rows, SKIP LOCKED.
CREATE FUNCTION pgqueue_resume_due(p_limit integer DEFAULT 1000)
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_due record;
    v_count integer := 0;
BEGIN
    FOR v_due IN
        SELECT q.name FROM pgqueue_queue AS q WHERE q.paused_until <= v_now ORDER BY q.name FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM pgqueue_queue_resume(v_due.name);
        v_count := v_count + 1;
    END LOOP;
    FOR v_due IN
        SELECT l.name FROM pgqueue_limit AS l WHERE l.paused_until <= v_now ORDER BY l.paused_until
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM pgqueue_limit_resume(v_due.name);
        v_count := v_count + 1;
    END LOOP;
    FOR v_due IN
        SELECT c.name, c.queue FROM pgqueue_channel AS c WHERE c.paused_until <= v_now
        ORDER BY c.paused_until LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM pgqueue_channel_resume(v_due.queue, v_due.name);
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END;
$$;
