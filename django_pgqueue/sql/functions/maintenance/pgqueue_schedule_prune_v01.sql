-- Deletes old ticks, and schedules that code does not declare any more, after p_retention. A call deletes at most
-- 10,000 ticks.
-- The maintenance of a worker runs it each few minutes.
-- Returns the number of ticks.
-- Locks: the rows, SKIP LOCKED.
CREATE FUNCTION pgqueue_schedule_prune(p_retention interval DEFAULT '7 days')
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_deleted integer;
BEGIN
    DELETE FROM pgqueue_schedule_tick AS t
    WHERE t.id IN (
        SELECT o.id FROM pgqueue_schedule_tick AS o
        WHERE o.fired_at < clock_timestamp() - p_retention ORDER BY o.fired_at LIMIT 10000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_deleted = ROW_COUNT;
    DELETE FROM pgqueue_schedule AS s
    WHERE s.id IN (
        SELECT o.id FROM pgqueue_schedule AS o
        WHERE o.removed_at < clock_timestamp() - p_retention FOR UPDATE SKIP LOCKED);
    RETURN v_deleted;
END;
$$;
