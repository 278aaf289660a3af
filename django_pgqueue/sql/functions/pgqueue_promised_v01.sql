-- Sums up the messages that were made ready for a shared limit and are not leased yet. It looks at 1,000 at most.
-- Caller: pgqueue_promote_within.
-- p_now: the caller's reading of the clock.
-- Returns slow: the queues in which one of them has been ready for 5 seconds; messages, cost: how many there are and
--   what they cost, without those of slow queues and of parked channels. All leave out messages of an ordered channel
--   that another one holds, because it waits for a shared limit itself: they were made ready before the channel was
--   ordered, and would keep the room from it.
-- Locks: none.
CREATE FUNCTION pgqueue_promised(
    p_limit_id bigint, p_now timestamptz, OUT slow text[], OUT messages bigint, OUT cost bigint
)
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    slow := ARRAY(
        SELECT DISTINCT c.queue
        FROM (
            SELECT m.channel_id, m.promoted_at FROM pgqueue_message AS m WHERE m.promoted_for = p_limit_id LIMIT 1000
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id
        WHERE n.promoted_at < p_now - interval '5 seconds' AND pgqueue_waiting_holder(n.channel_id) IS NULL);
    SELECT coalesce(sum(a.messages), 0), coalesce(sum(a.cost), 0) INTO messages, cost
    FROM (
        SELECT n.channel_id, count(*) AS messages, sum(n.cost) AS cost
        FROM (
            SELECT m.channel_id, coalesce(m.cost, 1) AS cost FROM pgqueue_message AS m
            WHERE m.promoted_for = p_limit_id LIMIT 1000
        ) AS n
        GROUP BY n.channel_id
    ) AS a
    JOIN pgqueue_channel AS c ON c.id = a.channel_id
    WHERE c.queue <> ALL (slow) AND NOT pgqueue_is_parked(a.channel_id)
        AND pgqueue_waiting_holder(a.channel_id) IS NULL;
END;
$$;
