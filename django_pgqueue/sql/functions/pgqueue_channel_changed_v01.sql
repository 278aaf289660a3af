-- Statement trigger of pgqueue_channel, AFTER UPDATE (transition tables: old_channels, new_channels).
-- Whoever edits a limit, a pause or a weight (admin, ORM, SQL) makes the next dequeue look at the channel's lane again.
-- Locks: none; the lane is touched by dequeue alone.
CREATE FUNCTION pgqueue_channel_changed()
RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    v_count bigint;
BEGIN
    -- Nobody counts while there is no max_size: what is counted afterwards starts anew.
    DELETE FROM pgqueue_channel_size AS s
    USING new_channels AS n, old_channels AS o
    WHERE n.id = s.channel_id AND o.id = n.id AND (n.max_size IS NULL) <> (o.max_size IS NULL);
    DELETE FROM pgqueue_departure AS d
    USING new_channels AS n, old_channels AS o
    WHERE n.id = d.channel_id AND o.id = n.id AND (n.max_size IS NULL) <> (o.max_size IS NULL);

    WITH changed AS (
        SELECT n.id, n.queue
        FROM new_channels AS n
        JOIN old_channels AS o ON o.id = n.id
        WHERE (n.max_concurrency, n.release_interval, n.release_burst, n.weight, n.paused_at, n.released_at)
            IS DISTINCT FROM (o.max_concurrency, o.release_interval, o.release_burst, o.weight, o.paused_at, o.released_at)
    ),
    news AS (
        INSERT INTO pgqueue_arrival (channel_id, kind)
        SELECT c.id, 0 FROM changed AS c
    )
    SELECT count(pgqueue_wake(q.queue)) INTO v_count
    FROM (SELECT DISTINCT c.queue FROM changed AS c) AS q;
    RETURN NULL;
END;
$$;
