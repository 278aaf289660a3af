-- Notes when the limits of queues were edited (by admin, ORM or SQL), and wakes the workers that sleep on them.
-- Statement trigger, AFTER UPDATE (transition tables: old_queues, new_queues).
-- The list of leases at the gate of a queue goes by one change of its limits: after another one it is made anew. A row
-- that is inserted has the time of its insert.
-- When a rate is gone, so are the corrections of what messages cost it: a later rate must not be charged with them.
-- Locks: corrections, SKIP LOCKED; none else beyond the rows that the caller has edited.
CREATE FUNCTION pgqueue_queue_changed()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_changed text[];
BEGIN
    v_changed := ARRAY(
        SELECT n.name
        FROM new_queues AS n
        JOIN old_queues AS o ON o.name = n.name
        WHERE (n.max_concurrency, n.release_interval, n.release_burst, n.fairness, n.max_share)
            IS DISTINCT FROM (o.max_concurrency, o.release_interval, o.release_burst, o.fairness, o.max_share));
    IF v_changed <> '{}' THEN
        UPDATE pgqueue_queue AS q SET changed_at = clock_timestamp() WHERE q.name = ANY (v_changed);
        DELETE FROM pgqueue_spent AS s
        WHERE s.ctid = ANY (ARRAY(
            SELECT o.ctid FROM pgqueue_spent AS o JOIN new_queues AS n ON n.name = o.queue
            WHERE n.name = ANY (v_changed) AND n.release_interval IS NULL
            FOR UPDATE OF o SKIP LOCKED));
        PERFORM pgqueue_wake(u) FROM unnest(v_changed) AS u;
    END IF;
    RETURN NULL;
END;
$$;
