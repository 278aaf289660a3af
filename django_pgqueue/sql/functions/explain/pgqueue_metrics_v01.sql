-- Reports length by state, ages and totals of each channel. It is for operators and monitors, not for hot paths: it
-- counts the live messages, and with p_totals the archive and the dead letters.
-- scheduled: messages that wait for their time, or for other messages, which blocked counts alone; waiting_for_limit:
-- those that wait for a full shared limit; waiting_for_order_key: those that wait for the message before them of their
-- order key. oldest and newest: age of the ready messages since they became due. total: messages ever enqueued.
-- Locks: none.
CREATE FUNCTION pgqueue_metrics(p_queue text DEFAULT NULL, p_channel text DEFAULT NULL, p_totals boolean DEFAULT true)
RETURNS TABLE (
    queue text,
    channel text,
    ready bigint,
    leased bigint,
    scheduled bigint,
    waiting_for_limit bigint,
    waiting_for_order_key bigint,
    dead bigint,
    oldest interval,
    newest interval,
    total bigint,
    blocked bigint
)
LANGUAGE sql
STABLE
SECURITY DEFINER
AS $$
-- Counts the live messages of each channel.
WITH live AS (
    SELECT m.channel_id,
        count(*) FILTER (WHERE m.status = 1) AS ready,
        count(*) FILTER (WHERE m.status = 2) AS leased,
        count(*) FILTER (WHERE m.status = 3 AND coalesce(m.waits_for, -2) = -2) AS scheduled,
        count(*) FILTER (WHERE m.waits_for >= 0) AS limited,
        count(*) FILTER (WHERE m.waits_for = -1) AS keyed,
        count(*) FILTER (WHERE m.waits_for = -2) AS blocked,
        min(m.dequeue_at) FILTER (WHERE m.status = 1) AS oldest,
        max(m.dequeue_at) FILTER (WHERE m.status = 1) AS newest
    FROM pgqueue_message AS m
    GROUP BY m.channel_id
),
-- Counts the dead letters of each channel.
dead AS (
    SELECT d.queue, d.channel, count(*) AS letters, count(*) FILTER (WHERE d.redriven_at IS NULL) AS waiting
    FROM pgqueue_dead_letter AS d
    GROUP BY d.queue, d.channel
),
-- Counts the archived messages of each channel.
archived AS (
    SELECT a.queue, a.channel, count(*) AS messages
    FROM pgqueue_archived_message AS a
    WHERE p_totals
    GROUP BY a.queue, a.channel
),
-- Counts the messages of each channel that were settled without an archive.
unarchived AS (
    SELECT u.queue, u.channel, sum(u.messages)::bigint AS messages
    FROM (
        SELECT n.queue, n.channel, cardinality(n.attempts) AS messages FROM pgqueue_unarchived AS n
        UNION ALL
        SELECT o.queue, o.channel, o.messages FROM pgqueue_unarchived_total AS o
    ) AS u
    WHERE p_totals
    GROUP BY u.queue, u.channel
)
SELECT c.queue::text, c.name::text, coalesce(l.ready, 0), coalesce(l.leased, 0), coalesce(l.scheduled, 0),
    coalesce(l.limited, 0), coalesce(l.keyed, 0), coalesce(d.waiting, 0), n.now - pgqueue_clamp_time(l.oldest),
    n.now - pgqueue_clamp_time(l.newest),
    CASE WHEN p_totals THEN
        coalesce(l.ready + l.leased + l.scheduled + l.limited + l.keyed, 0) + coalesce(d.letters, 0)
            + coalesce(a.messages, 0) + coalesce(u.messages, 0) + coalesce(t.messages, 0)
    END,
    coalesce(l.blocked, 0)
FROM pgqueue_channel AS c
-- Read once: two ages of one message are equal.
CROSS JOIN (SELECT clock_timestamp() AS now OFFSET 0) AS n
LEFT JOIN live AS l ON l.channel_id = c.id
LEFT JOIN dead AS d ON d.queue = c.queue AND d.channel = c.name
LEFT JOIN archived AS a ON a.queue = c.queue AND a.channel = c.name
LEFT JOIN unarchived AS u ON u.queue = c.queue AND u.channel = c.name
LEFT JOIN pgqueue_tally AS t ON t.queue = c.queue AND t.channel = c.name
WHERE (p_queue IS NULL OR c.queue = p_queue) AND (p_channel IS NULL OR c.name = p_channel)
ORDER BY c.queue, c.name;
$$;
