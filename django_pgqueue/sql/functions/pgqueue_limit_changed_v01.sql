-- Makes changes of shared limits hold for what is leased already, and wakes the workers of messages that wait for them.
-- Caller: trigger of pgqueue_limit.
-- Statement trigger, AFTER UPDATE (transition tables: old_limits, new_limits). An update waits for the leases that are
-- being taken, so all of them are visible here.
-- Locks: none beyond the rows that were updated.
CREATE FUNCTION pgqueue_limit_changed()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_counted bigint[];
BEGIN
    v_counted := ARRAY(
        SELECT n.id FROM new_limits AS n JOIN old_limits AS o ON o.id = n.id
        WHERE o.max_concurrency IS NULL AND o.max_cost IS NULL
            AND (n.max_concurrency IS NOT NULL OR n.max_cost IS NOT NULL));
    IF v_counted <> '{}' THEN
        -- No places were kept before: they are made from the leases.
        DELETE FROM pgqueue_place AS p WHERE p.limit_id = ANY (v_counted);
        INSERT INTO pgqueue_place (limit_id, message_id, placed_at)
        SELECT u.id, m.id, m.leased_at
        FROM unnest(v_counted) AS u (id)
        JOIN pgqueue_message AS m ON m.status = 2 AND (u.id = ANY (m.limits)
            OR EXISTS (SELECT FROM pgqueue_limit_handler AS h WHERE h.handler = m.handler AND h.limit_id = u.id));
        UPDATE pgqueue_meter AS r SET place_floor = '-infinity' WHERE r.limit_id = ANY (v_counted);
    END IF;
    PERFORM pgqueue_wake_waiting();
    RETURN NULL;
END;
$$;
