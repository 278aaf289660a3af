-- Deletes outcomes that no breaker looks at any more, changes that no worker has reported for a day, and the rows of
-- single channels that are of no use: of breakers that have been closed for a day, of shared limits that hold nothing
-- (an hour after they were made, 1,000 a call), and those whose channel is gone.
-- Locks: limits, SKIP LOCKED.
CREATE FUNCTION pgqueue_prune_limits()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - interval '1 day';
    v_id bigint;
    v_gone record;
    v_ids bigint[];
BEGIN
    DELETE FROM pgqueue_breaker_outcome AS o
    WHERE o.ended_at < v_before - (
        SELECT coalesce(max(greatest(l.breaker_within, l.breaker_pause)), '0') FROM pgqueue_limit AS l);
    DELETE FROM pgqueue_breaker_change AS n WHERE n.at < v_before;
    FOR v_id IN
        SELECT l.id FROM pgqueue_limit AS l
        WHERE l.parent_id IS NULL AND l.per = 'channel' AND l.breaker_failures IS NOT NULL FOR UPDATE SKIP LOCKED
    LOOP
        -- Deletes the breakers of its channels.
        WITH gone AS (
            DELETE FROM pgqueue_limit AS l
            WHERE l.id = ANY (ARRAY(
                SELECT n.id FROM pgqueue_limit AS n
                WHERE n.parent_id = v_id AND (n.open_until IS NULL AND n.closed_at < v_before
                    OR NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = n.channel_id))
                FOR UPDATE SKIP LOCKED))
            RETURNING l.id, l.openings
        )
        SELECT array_agg(g.id) AS ids, sum(g.openings) AS openings INTO v_gone FROM gone AS g;
        PERFORM pgqueue_forget_limits(v_gone.ids);
        -- The total of the handler must not fall.
        UPDATE pgqueue_limit AS l SET openings = l.openings + v_gone.openings
        WHERE l.id = v_id AND v_gone.openings > 0;
    END LOOP;
    -- Looks without locks first, so that a dequeue meets few locked rows; then again under them.
    v_ids := ARRAY(SELECT i.id FROM pgqueue_idle_limits(ARRAY(
        SELECT l.id FROM pgqueue_limit AS l
        WHERE l.parent_id > 0 AND l.breaker_failures IS NULL
            AND l.created_at < clock_timestamp() - interval '1 hour'
        ORDER BY random() LIMIT 1000)) AS i);
    v_ids := ARRAY(SELECT l.id FROM pgqueue_limit AS l WHERE l.id = ANY (v_ids) FOR UPDATE SKIP LOCKED);
    v_ids := ARRAY(SELECT i.id FROM pgqueue_idle_limits(v_ids) AS i);
    DELETE FROM pgqueue_limit AS l WHERE l.id = ANY (v_ids);
    PERFORM pgqueue_forget_limits(v_ids);
END;
$$;
