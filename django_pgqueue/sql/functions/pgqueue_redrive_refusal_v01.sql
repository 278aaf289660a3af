-- Returns why dead letters cannot be redriven, before anything is written: the refusal of the first channel that takes
-- none; or NULL.
-- The caller has locked them. p_channel, p_wait: as in pgqueue_redrive. A redrive drops nothing: a full channel
-- refuses.
-- Locks: as pgqueue_enqueue_check, in the order of channels (lock order, step 1).
CREATE FUNCTION pgqueue_redrive_refusal(p_ids bigint[], p_channel text, p_wait interval)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    v_channel record;
    v_refusal jsonb;
BEGIN
    FOR v_channel IN
        SELECT n.queue, n.channel, n.messages
        FROM (
            SELECT d.queue, coalesce(p_channel, d.channel) AS channel, count(*) AS messages
            FROM pgqueue_dead_letter AS d
            WHERE d.id = ANY (p_ids)
            GROUP BY 1, 2
        ) AS n
        LEFT JOIN pgqueue_channel AS c ON c.queue = n.queue AND c.name = n.channel
        ORDER BY c.id NULLS FIRST
    LOOP
        v_refusal := pgqueue_enqueue_check(v_channel.queue, v_channel.channel, v_channel.messages, false, false,
            p_wait);
        EXIT WHEN v_refusal IS NOT NULL;
    END LOOP;
    RETURN v_refusal;
END;
$$;
