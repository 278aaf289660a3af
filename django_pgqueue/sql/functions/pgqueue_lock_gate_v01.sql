-- Locks the gate of a queue with limits, and makes it first when there is none. The transaction that holds it is the
-- only one that leases from the queue.
-- Caller: pgqueue_queue_allowance.
-- Returns where the gate is stored; NULL when the queue is paused, or another transaction holds or makes the gate.
-- Locks: the gate, SKIP LOCKED; pg_try_advisory_xact_lock. It never waits.
CREATE FUNCTION pgqueue_lock_gate(p_queue text)
RETURNS tid
LANGUAGE plpgsql
AS $$
DECLARE
    v_seq bigint;
    v_place tid;
BEGIN
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    -- The newest entry of the index is the live one. It is looked up first: a search for one to lock would walk all
    -- dead entries.
    SELECT g.seq INTO v_seq FROM pgqueue_gate AS g WHERE g.queue = p_queue ORDER BY g.seq DESC LIMIT 1;
    IF FOUND THEN
        -- Its holder commits within a millisecond, as a rule: asking again here costs less than an empty answer.
        FOR v_try IN 1..10 LOOP
            SELECT g.ctid INTO v_place FROM pgqueue_gate AS g WHERE g.queue = p_queue AND g.seq = v_seq
            FOR UPDATE SKIP LOCKED;
            EXIT WHEN FOUND;
            PERFORM pg_sleep(0.001);
            SELECT g.seq INTO v_seq FROM pgqueue_gate AS g WHERE g.queue = p_queue ORDER BY g.seq DESC LIMIT 1;
        END LOOP;
    ELSIF pg_try_advisory_xact_lock(hashtextextended(p_queue, 7205)) THEN
        -- This look is repeated: another transaction may have made the gate before this one had the lock.
        INSERT INTO pgqueue_gate AS g (queue)
        SELECT p_queue WHERE NOT EXISTS (SELECT FROM pgqueue_gate AS o WHERE o.queue = p_queue)
        RETURNING g.ctid INTO v_place;
    END IF;
    RETURN v_place;
END;
$$;
