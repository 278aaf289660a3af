-- Returns the channels that have ready messages: since when the oldest of them has been due, and which one comes next.
-- It looks at one message of each priority of a channel, and at p_most of those at most, in the order of channel ids;
-- complete: there were not more.
-- Locks: none.
CREATE FUNCTION pgqueue_waiting(p_most integer DEFAULT 10000)
RETURNS TABLE (
    channel_id bigint,
    queue text,
    channel text,
    oldest_at timestamptz,
    next_id bigint,
    complete boolean
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
-- Walks the index from one channel and priority to the next, reading the first message of each.
WITH RECURSIVE head AS (
    (
        SELECT m.channel_id, -m.priority AS rank, m.dequeue_at, m.id, 1 AS place
        FROM pgqueue_message AS m
        WHERE m.status = 1
        ORDER BY m.channel_id, -m.priority, m.dequeue_at, m.id
        LIMIT 1
    )
    UNION ALL
    -- Steps from one priority to the next by the index, over all messages between.
    SELECT n.channel_id, n.rank, n.dequeue_at, n.id, h.place + 1
    FROM head AS h
    CROSS JOIN LATERAL (
        SELECT m.channel_id, -m.priority AS rank, m.dequeue_at, m.id
        FROM pgqueue_message AS m
        WHERE m.status = 1 AND (m.channel_id, -m.priority) > (h.channel_id, h.rank)
        ORDER BY m.channel_id, -m.priority, m.dequeue_at, m.id
        LIMIT 1
    ) AS n
    WHERE h.place < p_most
)
SELECT w.channel_id, c.queue::text, c.name::text, w.oldest_at, w.next_id, w.seen < p_most
FROM (
    SELECT h.channel_id, min(h.dequeue_at) AS oldest_at, (array_agg(h.id ORDER BY h.rank))[1] AS next_id,
        max(max(h.place)) OVER () AS seen
    FROM head AS h
    GROUP BY h.channel_id
) AS w
JOIN pgqueue_channel AS c ON c.id = w.channel_id;
$$;
