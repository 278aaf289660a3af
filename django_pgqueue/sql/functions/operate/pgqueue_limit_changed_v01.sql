-- Makes changes of shared limits hold for what is leased already, and wakes the workers of messages that wait for them.
-- Records that a breaker has opened or closed, however that came. When it opens, each worker that listens is notified,
-- so that it gives back what it has not started.
-- Statement trigger, AFTER UPDATE (transition tables: old_limits, new_limits). An update waits for the leases that are
-- being taken, so all of them are visible here.
-- Locks: none beyond the rows that were updated; NOTIFY serialises commits, but breakers open seldom.
CREATE FUNCTION pgqueue_limit_changed()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_counted bigint[];
    v_opened text[];
BEGIN
    v_counted := ARRAY(
        SELECT n.id FROM new_limits AS n JOIN old_limits AS o ON o.id = n.id
        WHERE o.max_concurrency IS NULL AND o.max_cost IS NULL
            AND (n.max_concurrency IS NOT NULL OR n.max_cost IS NOT NULL));
    IF v_counted <> '{}' THEN
        -- No places were kept before.
        PERFORM pgqueue_place_leases(v_counted);
    END IF;
    -- Records each breaker that has opened or closed.
    WITH turned AS (
        INSERT INTO pgqueue_breaker_change (limit_id, at, change, until)
        SELECT n.id, clock_timestamp(), CASE WHEN n.open_until IS NULL THEN 'closed' ELSE 'opened' END, n.open_until
        FROM new_limits AS n
        JOIN old_limits AS o ON o.id = n.id
        WHERE (n.open_until IS NULL) <> (o.open_until IS NULL)
        RETURNING limit_id, change
    )
    SELECT array_agg(jsonb_build_object('handler', n.breaker_handler, 'queue', c.queue, 'channel', c.name)::text)
    INTO v_opened
    FROM turned AS t
    JOIN new_limits AS n ON n.id = t.limit_id
    LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
    WHERE t.change = 'opened';
    IF v_opened IS NOT NULL AND coalesce(current_setting('pgqueue.notify', true), '') <> 'off' THEN
        PERFORM pg_notify('pgqueue_breaker', u) FROM unnest(v_opened) AS u;
    END IF;
    PERFORM pgqueue_wake_waiting();
    RETURN NULL;
END;
$$;
