-- Sets aside messages that stand behind those whose shared limit is full, in the same channel: each of them would be
-- set aside at its turn, one by one. So a backlog of a hundred thousand leaves the line in a few hundred calls.
-- p_aside: the messages that were set aside, with their limits. Those follow that have the same limit of their own, or
-- the same handler if the limit is the handler's; only without an order key, and those that cost no less; none of an
-- ordered channel, where they wait behind. A call looks at 500 messages for each channel and handler. p_full: limits
-- without any room. Messages that were made ready because there was room follow for these only; elsewhere the room is
-- theirs.
-- Locks: messages, SKIP LOCKED. The callers pin the plans.
CREATE FUNCTION pgqueue_set_aside_behind(p_aside pgqueue_place[], p_full bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_full record;
BEGIN
    FOR v_full IN
        -- named_id: the limit that messages name, when the row is that of a channel.
        SELECT u.limit_id, n.named_id, m.channel_id,
            CASE WHEN n.named_id = ANY (m.limits) THEN NULL ELSE m.handler END AS handler,
            min(coalesce(m.cost, 1)) AS cost
        FROM unnest(p_aside) AS u
        CROSS JOIN LATERAL (
            SELECT coalesce((SELECT l.parent_id FROM pgqueue_limit AS l WHERE l.id = u.limit_id), u.limit_id) AS named_id
        ) AS n
        -- The OFFSET looks up each message by its key.
        CROSS JOIN LATERAL (SELECT o.* FROM pgqueue_message AS o WHERE o.id = u.message_id OFFSET 0) AS m
        JOIN pgqueue_channel AS c ON c.id = m.channel_id AND NOT c.ordered
        WHERE m.waits_for = u.limit_id
        GROUP BY 1, 2, 3, 4
    LOOP
        UPDATE pgqueue_message AS m SET status = 3, waits_for = v_full.limit_id, promoted_for = NULL
        WHERE m.id = ANY (ARRAY(
            SELECT o.id FROM pgqueue_message AS o
            WHERE o.status::integer = 1 AND o.id = ANY (ARRAY(
                SELECT n.id FROM (
                    SELECT r.id, r.handler, r.limits, r.order_key, r.promoted_for, coalesce(r.cost, 1) AS cost
                    FROM pgqueue_message AS r
                    -- No message of the channel is ready before the floor of its lane.
                    JOIN (SELECT l.* FROM pgqueue_lane AS l WHERE l.channel_id = v_full.channel_id
                        ORDER BY l.seq DESC LIMIT 1) AS l ON l.channel_id = r.channel_id
                    WHERE r.channel_id = v_full.channel_id AND r.status = 1
                        AND (-r.priority, r.dequeue_at, r.id) >= (l.floor_rank, l.floor_at, l.floor_id)
                    ORDER BY -r.priority, r.dequeue_at, r.id LIMIT 500
                ) AS n
                WHERE CASE WHEN v_full.handler IS NULL THEN v_full.named_id = ANY (n.limits)
                        ELSE n.handler = v_full.handler END
                    AND n.order_key IS NULL AND n.cost >= v_full.cost
                    AND (n.promoted_for IS NULL OR n.promoted_for > 0 AND v_full.limit_id = ANY (p_full))))
            FOR UPDATE SKIP LOCKED));
    END LOOP;
END;
$$;
