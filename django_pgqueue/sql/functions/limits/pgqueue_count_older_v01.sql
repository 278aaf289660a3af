-- Counts the leases of dequeues that did not know that a handler has a shared limit, because they had begun before.
-- The caller holds the limit. p_awaited: the transactions of such dequeues; empty: they have not been looked up yet
-- (pgqueue_meter). A dequeue locks the table of lanes before it looks up the limits of its messages, until its
-- transaction ends. So a transaction that has not locked it, or is not the same one, knows the limit.
-- Returns false while one of them is open: its leases are not visible yet, so there is no room. A prepared transaction
--   has another name than before, so each one is awaited.
-- Locks: none. It reads pg_locks, and waits for no other transaction.
CREATE FUNCTION pgqueue_count_older(p_limit_id bigint, p_awaited text[])
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_awaited text[];
BEGIN
    v_awaited := ARRAY(
        SELECT DISTINCT k.virtualtransaction FROM pg_locks AS k
        WHERE k.locktype = 'relation' AND k.relation = 'pgqueue_lane'::regclass
            AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND k.mode IN ('RowShareLock', 'RowExclusiveLock') AND k.pid IS DISTINCT FROM pg_backend_pid()
            AND (p_awaited = '{}' OR k.virtualtransaction = ANY (p_awaited) OR k.pid IS NULL));
    IF v_awaited = '{}' THEN
        -- A statement of its own, because its snapshot must be younger than the look at the locks.
        PERFORM pgqueue_place_leases(ARRAY[p_limit_id]);
    END IF;
    UPDATE pgqueue_meter AS r SET awaited = nullif(v_awaited, '{}') WHERE r.limit_id = p_limit_id;
    RETURN v_awaited = '{}';
END;
$$;
