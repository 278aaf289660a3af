-- Makes scheduled messages ready whose time has come, at most p_limit of them, the longest due first.
-- pgqueue_bring_back passes the floor that it has read. p_queue: the messages of this queue among the first 1,000 that
-- are due.
-- Returns the number of messages.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_promote(p_limit integer, p_from timestamptz DEFAULT '-infinity', p_queue text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    -- The clock is in a variable, because a volatile function could not bound an index scan.
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT m.id
        FROM (
            SELECT m.id, m.channel_id, m.dequeue_at FROM pgqueue_message AS m
            WHERE m.status = 3 AND m.waits_for IS NULL AND m.dequeue_at >= p_from AND m.dequeue_at <= v_now
            -- A tick goes on behind all that another transaction has locked; a dequeue looks at so many.
            ORDER BY m.dequeue_at LIMIT CASE WHEN p_queue IS NOT NULL THEN 1000 END
        ) AS d
        -- As in pgqueue_reclaim; the cast is as in pgqueue_announce.
        CROSS JOIN LATERAL (
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.id = d.id AND m.status::integer = 3 AND coalesce(m.waits_for, -3) = -3 AND m.dequeue_at <= v_now
                AND (p_queue IS NULL OR p_queue = (SELECT c.queue FROM pgqueue_channel AS c WHERE c.id = d.channel_id))
            FOR UPDATE SKIP LOCKED
        ) AS m
        LIMIT p_limit);
    IF v_ids = '{}' THEN
        RETURN 0;
    END IF;
    -- A message with shared limits goes on to wait for them.
    UPDATE pgqueue_message AS m
    SET status = CASE WHEN w.waits_for IS NULL THEN 1 ELSE 3 END, waits_for = w.waits_for
    FROM (
        SELECT o.id, CASE WHEN o.limits IS NOT NULL THEN pgqueue_waits_for(o.channel_id, o.limits) END AS waits_for
        FROM pgqueue_message AS o WHERE o.id = ANY (v_ids)
    ) AS w
    WHERE m.id = w.id AND m.id = ANY (v_ids);
    PERFORM pgqueue_announce(v_ids);
    RETURN cardinality(v_ids);
END;
$$;
