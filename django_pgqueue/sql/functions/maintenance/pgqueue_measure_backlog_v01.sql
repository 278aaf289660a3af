-- Counts the present messages by queue and channel: ready, leased, scheduled, those that wait for a full shared limit
-- or for their order key, those of the scheduled ones that wait for other messages (blocked), dead letters that wait,
-- and since when the oldest has been due.
-- It reads the indexes of all live messages and of the dead letters that wait, so the caller counts less often when
-- that takes long. Rows that stay as they are are not written.
-- Locks: its own rows; pgqueue_measure runs once at a time.
CREATE FUNCTION pgqueue_measure_backlog()
RETURNS void
LANGUAGE sql
SET enable_seqscan = off
SET jit = off
AS $$
-- Counts the ready messages of each channel.
WITH ready AS MATERIALIZED (
    SELECT m.channel_id, count(*) AS messages, min(m.dequeue_at) AS oldest_at FROM pgqueue_message AS m
    WHERE m.status = 1 GROUP BY m.channel_id
),
-- Counts the leased messages of each channel.
leased AS MATERIALIZED (
    SELECT m.channel_id, count(*) AS messages FROM pgqueue_message AS m WHERE m.status = 2 GROUP BY m.channel_id
),
-- Counts the messages of each channel that wait for their time, for a limit, for their order key, or for others.
scheduled AS MATERIALIZED (
    SELECT m.channel_id, count(*) AS messages FROM pgqueue_message AS m WHERE m.status = 3 GROUP BY m.channel_id
),
-- Counts those of them that do not wait for their time.
waiting AS MATERIALIZED (
    SELECT m.channel_id, count(*) FILTER (WHERE m.waits_for >= 0) AS limited,
        count(*) FILTER (WHERE m.waits_for = -1) AS keyed, count(*) FILTER (WHERE m.waits_for = -2) AS blocked
    FROM pgqueue_message AS m
    WHERE m.waits_for IS NOT NULL
    GROUP BY m.channel_id
),
-- Counts the dead letters that were not redriven.
dead AS MATERIALIZED (
    SELECT d.queue COLLATE "C" AS queue, d.channel COLLATE "C" AS channel, count(*) AS messages
    FROM pgqueue_dead_letter AS d
    WHERE d.redriven_at IS NULL
    GROUP BY 1, 2
),
-- Joins the counts, one row for each channel.
counted AS MATERIALIZED (
    SELECT coalesce(l.queue, d.queue) AS queue, coalesce(l.channel, d.channel) AS channel,
        coalesce(l.ready, 0) AS ready, coalesce(l.leased, 0) AS leased, coalesce(l.scheduled, 0) AS scheduled,
        coalesce(l.limited, 0) AS limited, coalesce(l.keyed, 0) AS keyed, coalesce(l.blocked, 0) AS blocked,
        coalesce(d.messages, 0) AS dead, l.oldest_at
    FROM (
        SELECT c.queue, c.name AS channel, r.messages AS ready, h.messages AS leased,
            s.messages - coalesce(w.limited + w.keyed, 0) AS scheduled, w.limited, w.keyed, w.blocked, r.oldest_at
        FROM pgqueue_channel AS c
        LEFT JOIN ready AS r ON r.channel_id = c.id
        LEFT JOIN leased AS h ON h.channel_id = c.id
        LEFT JOIN scheduled AS s ON s.channel_id = c.id
        LEFT JOIN waiting AS w ON w.channel_id = c.id
        WHERE coalesce(r.messages, h.messages, s.messages) IS NOT NULL
    ) AS l
    FULL JOIN dead AS d ON d.queue = l.queue AND d.channel = l.channel
),
-- Adds a row for each whole queue.
levels AS MATERIALIZED (
    SELECT c.queue, c.channel, c.ready, c.leased, c.scheduled, c.limited, c.keyed, c.blocked, c.dead, c.oldest_at
    FROM counted AS c
    UNION ALL
    SELECT c.queue, NULL, sum(c.ready), sum(c.leased), sum(c.scheduled), sum(c.limited), sum(c.keyed), sum(c.blocked),
        sum(c.dead), min(c.oldest_at)
    FROM counted AS c
    GROUP BY c.queue
),
-- Deletes the rows of queues and channels that have no messages. The condition can be hashed; IS NOT DISTINCT FROM
-- cannot.
gone AS (
    DELETE FROM pgqueue_backlog AS b
    WHERE NOT EXISTS (
        SELECT FROM levels AS l
        WHERE l.queue = b.queue AND coalesce(l.channel, '') = coalesce(b.channel, '')
            AND (l.channel IS NULL) = (b.channel IS NULL))
)
INSERT INTO pgqueue_backlog AS b (
    queue, channel, ready, leased, scheduled, waiting_for_limit, waiting_for_order_key, blocked, dead, oldest_at)
SELECT l.queue, l.channel, l.ready, l.leased, l.scheduled, l.limited, l.keyed, l.blocked, l.dead, l.oldest_at
FROM levels AS l
ON CONFLICT (queue, channel) DO UPDATE
SET ready = excluded.ready, leased = excluded.leased, scheduled = excluded.scheduled,
    waiting_for_limit = excluded.waiting_for_limit, waiting_for_order_key = excluded.waiting_for_order_key,
    blocked = excluded.blocked, dead = excluded.dead, oldest_at = excluded.oldest_at
WHERE (
    b.ready, b.leased, b.scheduled, b.waiting_for_limit, b.waiting_for_order_key, b.blocked, b.dead, b.oldest_at
) IS DISTINCT FROM (
    excluded.ready, excluded.leased, excluded.scheduled, excluded.waiting_for_limit, excluded.waiting_for_order_key,
    excluded.blocked, excluded.dead, excluded.oldest_at);
$$;
