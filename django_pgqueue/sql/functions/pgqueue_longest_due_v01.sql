-- Returns the messages of a channel that are due the longest, p_most at most: ready ones, and those that wait for a
-- shared limit or for their order key.
-- p_except: none of these. The settings of the caller pin the plans.
-- Locks: none.
CREATE FUNCTION pgqueue_longest_due(p_channel_id bigint, p_most bigint, p_except bigint[])
RETURNS bigint[]
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_waits boolean;
BEGIN
    -- While no message waits for a limit or a key (-1), the look for those of the channel would walk dead entries only.
    SELECT count(*) > 0 INTO v_waits FROM (
        SELECT m.waits_for FROM pgqueue_message AS m WHERE m.waits_for >= -1 ORDER BY m.waits_for LIMIT 1
    ) AS w;
    RETURN (
        -- Lists the priorities of the ready messages, one step of the index each.
        WITH RECURSIVE rank (value) AS (
            (
                SELECT -m.priority FROM pgqueue_message AS m
                WHERE m.channel_id = p_channel_id AND m.status = 1
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT -m.priority FROM pgqueue_message AS m
                WHERE m.channel_id = p_channel_id AND m.status = 1 AND -m.priority > r.value
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT 1)
            FROM rank AS r
            WHERE r.value IS NOT NULL
        )
        SELECT coalesce(array_agg(o.id ORDER BY o.dequeue_at, o.id), '{}')
        FROM (
            SELECT h.id, h.dequeue_at
            FROM rank AS r
            -- The index has them by priority: reads the oldest of each.
            CROSS JOIN LATERAL (
                SELECT m.id, m.dequeue_at FROM pgqueue_message AS m
                WHERE m.channel_id = p_channel_id AND m.status = 1 AND -m.priority = r.value AND m.id <> ALL (p_except)
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT p_most
            ) AS h
            UNION ALL
            (
                SELECT m.id, m.dequeue_at FROM pgqueue_message AS m
                WHERE v_waits AND m.channel_id = p_channel_id AND m.status = 3 AND m.dequeue_at <= v_now
                    AND m.waits_for IS NOT NULL AND m.id <> ALL (p_except)
                ORDER BY m.dequeue_at, m.id
                LIMIT p_most
            )
            ORDER BY dequeue_at, id
            LIMIT p_most
        ) AS o);
END;
$$;
