-- Sums up the messages that were made ready for a shared limit and are not leased yet. It looks at 1,000 at most.
-- p_now: the caller's reading of the clock.
-- Returns slow: the queues in which one of them has been ready for 5 seconds; messages, cost: how many there are and
--   what they cost, without those of slow queues. All leave out messages of queues that are paused or at a limit, of
--   parked channels, and those of an ordered channel that another one holds, because it waits for a shared limit
--   itself: they were made ready before the channel was ordered, and would keep the room from it.
-- Locks: none.
CREATE FUNCTION pgqueue_promised(
    p_limit_id bigint, p_now timestamptz, OUT slow text[], OUT messages bigint, OUT cost bigint
)
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    SELECT coalesce(array_agg(q.queue) FILTER (WHERE q.slow), '{}'),
        coalesce(sum(q.messages) FILTER (WHERE NOT q.slow), 0), coalesce(sum(q.cost) FILTER (WHERE NOT q.slow), 0)
    INTO slow, messages, cost
    FROM (
        SELECT c.queue, sum(a.messages) AS messages, sum(a.cost) AS cost,
            (min(a.promoted_at) < p_now - interval '5 seconds') IS TRUE AS slow
        FROM (
            SELECT n.channel_id, count(*) AS messages, sum(n.cost) AS cost, min(n.promoted_at) AS promoted_at
            FROM (
                SELECT m.channel_id, coalesce(m.cost, 1) AS cost, m.promoted_at FROM pgqueue_message AS m
                WHERE m.promoted_for = p_limit_id LIMIT 1000
            ) AS n
            GROUP BY n.channel_id
        ) AS a
        JOIN pgqueue_channel AS c ON c.id = a.channel_id
        -- A channel that is paused, or at a limit, says nothing about the workers of its queue.
        WHERE NOT pgqueue_is_parked(a.channel_id) AND pgqueue_waiting_holder(a.channel_id) IS NULL
        GROUP BY c.queue
        -- Without it the condition on the queue would be asked for each channel.
        OFFSET 0
    ) AS q
    WHERE pgqueue_queue_is_open(q.queue);
END;
$$;
