-- Locks the gate of a queue with limits, and makes it first when there is none. The transaction that holds it is the
-- only one that leases from the queue.
-- Returns the gate, and where it is stored; place is NULL when another transaction holds or makes the gate. While it is
--   held, the function asks for 10 ms at most, and for 2 ms if the queue is full: its holder takes what is left.
-- Locks: the gate, SKIP LOCKED; its eight sides (pgqueue_enter_beside), pg_try_advisory_xact_lock. It never waits.
CREATE FUNCTION pgqueue_lock_gate(
    p_queue text,
    OUT place tid,
    OUT held bigint[],
    OUT next_at timestamptz,
    OUT seen_at timestamptz,
    OUT debt bigint,
    OUT wanted integer
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_alone boolean;
BEGIN
    -- Its holder commits within a millisecond, as a rule: asking again here costs less than an empty answer.
    FOR v_try IN 1..10 LOOP
        -- The newest entry of the index is the live one. It is looked up first: a search for one to lock would walk all
        -- dead entries.
        SELECT g.ctid, g.held, g.next_at, g.seen_at, g.debt, g.wanted INTO place, held, next_at, seen_at, debt, wanted
        FROM pgqueue_gate AS g
        WHERE g.queue = p_queue
            AND g.seq = (SELECT o.seq FROM pgqueue_gate AS o WHERE o.queue = p_queue ORDER BY o.seq DESC LIMIT 1)
        FOR UPDATE SKIP LOCKED;
        -- While it has the sides as well, no other dequeue passes beside the gate.
        v_alone := FOUND AND (
            SELECT bool_and(pg_try_advisory_xact_lock(hashtextextended(p_queue, 7210 + n)))
            FROM generate_series(0, 7) AS n);
        EXIT WHEN v_alone OR v_try = 1 AND NOT EXISTS (SELECT FROM pgqueue_gate AS g WHERE g.queue = p_queue)
            OR v_try = 3 AND NOT pgqueue_queue_is_open(p_queue);
        PERFORM pg_sleep(0.001);
    END LOOP;
    IF place IS NOT NULL AND NOT v_alone THEN
        place := NULL;
    ELSIF place IS NULL AND pg_try_advisory_xact_lock(hashtextextended(p_queue, 7205)) THEN
        -- Another transaction may have made the gate before this one had the lock.
        INSERT INTO pgqueue_gate AS g (queue)
        SELECT p_queue WHERE NOT EXISTS (SELECT FROM pgqueue_gate AS o WHERE o.queue = p_queue)
        RETURNING g.ctid, g.held, g.next_at, g.seen_at, g.debt, g.wanted
        INTO place, held, next_at, seen_at, debt, wanted;
    END IF;
END;
$$;
