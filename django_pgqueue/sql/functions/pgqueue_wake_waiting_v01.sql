-- Notifies the workers of queues whose messages wait for shared limits, because a limit may have room. It looks at the
-- first 100 of these messages.
-- Caller: pgqueue_limit_changed, pgqueue_record_outcomes, pgqueue_release_keys, pgqueue_wake_freed.
-- Locks: as pgqueue_wake.
CREATE FUNCTION pgqueue_wake_waiting()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pgqueue_wake(q.queue)
    FROM (
        SELECT DISTINCT c.queue
        FROM (
            SELECT m.channel_id FROM pgqueue_message AS m
            WHERE m.waits_for >= 0 ORDER BY m.waits_for, m.channel_id LIMIT 100
        ) AS w
        JOIN pgqueue_channel AS c ON c.id = w.channel_id
    ) AS q;
END;
$$;
