-- Statement trigger of pgqueue_channel, AFTER UPDATE (transition tables: old_channels, new_channels).
-- Whoever edits a limit, a pause or a weight (admin, ORM, SQL) makes the next dequeue look at the channel's lane again.
-- Locks: none; the lane is touched by dequeue alone.
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
