-- Finds channels that have messages and would not be served, because nothing leads to them.
-- problem: hidden (no lane, or one whose floor is above the message, and no arrival that would change it), parked (at
-- max_concurrency, as its lane says, while places are free) or unreleased (the next message of an order key waits for
-- one before it, and no note leads to it; a row for each). None should ever occur. It looks at p_most channels and
-- p_most messages that wait for their order key at most, and returns no row while more than p_most arrivals are not
-- folded, or notes not read: no dequeue or tick runs then.
-- Locks: none; in one snapshot, a message comes with its arrival, and a settlement with its note.
CREATE FUNCTION pgqueue_find_unreachable(p_most integer DEFAULT 10000)
RETURNS TABLE (
    channel_id bigint,
    queue text,
    channel text,
    oldest_at timestamptz,
    next_id bigint,
    problem text
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
-- Reads the arrivals, one more than the limit.
WITH arrivals AS MATERIALIZED (
    SELECT a.channel_id FROM pgqueue_arrival AS a LIMIT p_most + 1
),
-- Reads the notes, too.
notes AS MATERIALIZED (
    SELECT o.channel_id, o.order_key FROM pgqueue_order_note AS o LIMIT p_most + 1
)
SELECT w.channel_id, w.queue, w.channel, w.oldest_at, w.next_id, CASE WHEN l.reached THEN 'parked' ELSE 'hidden' END
FROM pgqueue_waiting(p_most) AS w
JOIN pgqueue_message AS m ON m.id = w.next_id
JOIN pgqueue_channel AS c ON c.id = w.channel_id
LEFT JOIN LATERAL (
    SELECT bool_or((l.floor_rank, l.floor_at, l.floor_id) <= (-m.priority, m.dequeue_at, m.id)) AS reached,
        coalesce(bool_and(l.parked_until = 'infinity'), false) AND pgqueue_waiting_holder(c.id) IS NULL AS parked
    FROM pgqueue_lane AS l
    WHERE l.channel_id = w.channel_id
) AS l ON true
WHERE (SELECT count(*) FROM arrivals) <= p_most AND w.channel_id NOT IN (SELECT n.channel_id FROM arrivals AS n)
    AND (l.reached IS NOT TRUE
        OR l.parked AND c.paused_at IS NULL
        AND (c.max_concurrency IS NULL OR c.released_at IS NOT NULL AND NOT c.ordered OR c.max_concurrency > (
            SELECT count(*) FROM pgqueue_message AS r WHERE r.channel_id = c.id AND r.status = 2)))
UNION ALL
SELECT k.channel_id, c.queue::text, c.name::text, k.dequeue_at, k.id, 'unreleased'
FROM (
    SELECT m.id, m.channel_id, m.order_key, m.dequeue_at FROM pgqueue_message AS m
    WHERE m.waits_for = -1
    ORDER BY m.waits_for, m.channel_id LIMIT p_most
) AS k
JOIN pgqueue_channel AS c ON c.id = k.channel_id
WHERE (SELECT count(*) FROM notes) <= p_most
    AND (k.channel_id, k.order_key) NOT IN (SELECT n.channel_id, n.order_key FROM notes AS n)
    AND k.id = (SELECT f.id FROM pgqueue_first_of_key(k.channel_id, k.order_key) AS f);
$$;
