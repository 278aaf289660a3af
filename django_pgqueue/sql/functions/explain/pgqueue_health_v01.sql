-- Reports the state of each queue: messages by state, the longest wait, its workers. It is for monitors: p_most bounds
-- the cost, whatever the backlog is.
-- It counts up to p_most messages of each state in a queue, looks at up to p_most channels, and at up to p_most leased
-- or scheduled messages of all queues. waiting_for_limit: messages that wait for a full shared limit;
-- waiting_for_order_key: those that wait for the message before them of their order key; scheduled: those that wait for
-- their time. complete: these were all; else the counts mean "at least". oldest: age of the oldest ready message since
-- it became due; oldest_channel: its channel. workers: those that serve the queue and sent a
-- heartbeat in the last p_silence. unknown_handler: the scheduled messages that wait for a worker that knows their
-- handler; blocked: those that wait for other messages.
-- Locks: none.
CREATE FUNCTION pgqueue_health(
    p_queue text DEFAULT NULL,
    p_most integer DEFAULT 10000,
    p_silence interval DEFAULT '15 seconds'
)
RETURNS TABLE (
    queue text,
    ready integer,
    leased integer,
    scheduled integer,
    waiting_for_limit integer,
    waiting_for_order_key integer,
    dead integer,
    oldest interval,
    oldest_channel text,
    workers integer,
    paused boolean,
    complete boolean,
    unknown_handler integer,
    blocked integer
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
-- Lists the queues, one step of the index each.
WITH RECURSIVE name AS (
    SELECT min(c.queue) AS queue FROM pgqueue_channel AS c
    UNION ALL
    SELECT (SELECT min(c.queue) FROM pgqueue_channel AS c WHERE c.queue > n.queue) FROM name AS n
    WHERE n.queue IS NOT NULL
),
-- Summarises the ready messages of each queue.
waiting AS MATERIALIZED (
    SELECT w.queue, min(w.oldest_at) AS oldest_at, (array_agg(w.channel ORDER BY w.oldest_at))[1] AS oldest_channel,
        array_agg(w.channel_id) AS channel_ids, bool_and(w.complete) AS complete
    FROM pgqueue_waiting(p_most) AS w
    GROUP BY w.queue
),
-- Counts the messages that are not ready. There are few queues and many messages: each message finds its channel by
-- the key.
held AS MATERIALIZED (
    SELECT c.queue, m.state, count(*) AS messages,
        count(*) FILTER (WHERE m.error_type LIKE '%UnknownHandler') AS unknown_handler,
        count(*) FILTER (WHERE m.is_blocked) AS blocked
    FROM (
        (
            SELECT l.channel_id, 'leased' AS state, NULL AS error_type, false AS is_blocked FROM pgqueue_message AS l
            WHERE l.status = 2 ORDER BY l.channel_id, l.leased_at LIMIT p_most + 1
        )
        UNION ALL
        (
            SELECT w.channel_id, 'limited', NULL, false FROM pgqueue_message AS w
            WHERE w.waits_for >= 0 ORDER BY w.waits_for LIMIT p_most + 1
        )
        UNION ALL
        (
            SELECT s.channel_id, 'scheduled', s.errors -> -1 ->> 'type', false FROM pgqueue_message AS s
            WHERE s.status = 3 AND s.waits_for IS NULL ORDER BY s.dequeue_at LIMIT p_most + 1
        )
        UNION ALL
        (
            SELECT k.channel_id, CASE WHEN k.waits_for = -1 THEN 'keyed' ELSE 'scheduled' END, NULL, k.waits_for = -2
            FROM pgqueue_message AS k
            WHERE k.waits_for < 0 ORDER BY k.waits_for LIMIT p_most + 1
        )
    ) AS m
    JOIN pgqueue_channel AS c ON c.id = m.channel_id
    GROUP BY c.queue, m.state
),
-- Counts the messages of each queue, up to p_most.
counted AS MATERIALIZED (
    SELECT n.queue,
        coalesce((SELECT pgqueue_count_ready(w.channel_ids, p_most) FROM waiting AS w WHERE w.queue = n.queue), 0)
            AS ready,
        h.*,
        (
            SELECT count(*) FROM (SELECT FROM pgqueue_dead_letter AS d
                WHERE d.queue = n.queue COLLATE "default" AND d.redriven_at IS NULL LIMIT p_most + 1) AS d
        ) AS dead
    FROM name AS n
    CROSS JOIN LATERAL (
        SELECT coalesce(max(o.messages) FILTER (WHERE o.state = 'leased'), 0) AS leased,
            coalesce(max(o.messages) FILTER (WHERE o.state = 'scheduled'), 0) AS scheduled,
            coalesce(max(o.messages) FILTER (WHERE o.state = 'limited'), 0) AS limited,
            coalesce(max(o.messages) FILTER (WHERE o.state = 'keyed'), 0) AS keyed,
            coalesce(sum(o.unknown_handler), 0) AS unknown_handler, coalesce(sum(o.blocked), 0) AS blocked
        FROM held AS o WHERE o.queue = n.queue
    ) AS h
    WHERE n.queue IS NOT NULL AND (p_queue IS NULL OR n.queue = p_queue)
)
SELECT n.queue::text, least(n.ready, p_most), least(n.leased, p_most)::integer, least(n.scheduled, p_most)::integer,
    least(n.limited, p_most)::integer, least(n.keyed, p_most)::integer, least(n.dead, p_most)::integer,
    CASE WHEN w.oldest_at IS NOT NULL THEN greatest('0', clock_timestamp() - pgqueue_clamp_time(w.oldest_at)) END,
    w.oldest_channel, (
        SELECT count(*) FROM pgqueue_worker AS k
        WHERE k.queues ? n.queue AND k.heartbeat_at > clock_timestamp() - p_silence AND k.state <> 'stopping'
    )::integer,
    EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = n.queue AND q.paused_at IS NOT NULL),
    greatest(n.ready, n.leased, n.scheduled, n.limited, n.keyed, n.dead) <= p_most
        AND coalesce((SELECT bool_and(a.complete) FROM waiting AS a), true)
        AND coalesce((SELECT max(t.messages)
            FROM (SELECT sum(h.messages) AS messages FROM held AS h GROUP BY h.state) AS t), 0) <= p_most,
    least(n.unknown_handler, p_most)::integer, least(n.blocked, p_most)::integer
FROM counted AS n
LEFT JOIN waiting AS w ON w.queue = n.queue
ORDER BY n.queue;
$$;
