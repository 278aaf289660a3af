-- Deletes outcomes that no breaker looks at any more, changes that no worker has reported for a day, and the breakers
-- of channels that have been closed for a day, or whose channel is gone.
-- Locks: breakers, SKIP LOCKED.
CREATE FUNCTION pgqueue_prune_breakers()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - interval '1 day';
    v_id bigint;
    v_gone record;
BEGIN
    DELETE FROM pgqueue_breaker_outcome AS o
    WHERE o.ended_at < v_before - (
        SELECT coalesce(max(greatest(l.breaker_within, l.breaker_pause)), '0') FROM pgqueue_limit AS l);
    DELETE FROM pgqueue_breaker_change AS n WHERE n.at < v_before;
    FOR v_id IN
        SELECT l.id FROM pgqueue_limit AS l
        WHERE l.breaker_id IS NULL AND l.breaker_per = 'channel' FOR UPDATE SKIP LOCKED
    LOOP
        -- Deletes the breakers of its channels.
        WITH gone AS (
            DELETE FROM pgqueue_limit AS l
            WHERE l.id = ANY (ARRAY(
                SELECT n.id FROM pgqueue_limit AS n
                WHERE n.breaker_id = v_id AND (n.open_until IS NULL AND n.closed_at < v_before
                    OR NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = n.channel_id))
                FOR UPDATE SKIP LOCKED))
            RETURNING l.id, l.openings
        )
        SELECT array_agg(g.id) AS ids, sum(g.openings) AS openings INTO v_gone FROM gone AS g;
        DELETE FROM pgqueue_place AS p WHERE p.limit_id = ANY (v_gone.ids);
        DELETE FROM pgqueue_meter AS r WHERE r.limit_id = ANY (v_gone.ids);
        -- The total of the handler must not fall.
        UPDATE pgqueue_limit AS l SET openings = l.openings + v_gone.openings
        WHERE l.id = v_id AND v_gone.openings > 0;
    END LOOP;
END;
$$;
