-- Makes the places of shared limits anew, from the leases of their messages.
-- p_limit_ids: limits whose rows the caller has written or locked. Those with a rate only keep no places. The row of a
-- channel always keeps them, because its limit is edited without its lock; the limit that it belongs to keeps none.
-- Locks: none.
CREATE FUNCTION pgqueue_place_leases(p_limit_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM pgqueue_place AS p WHERE p.limit_id = ANY (p_limit_ids);
    INSERT INTO pgqueue_place (limit_id, message_id, placed_at)
    SELECT u.id, m.id, m.leased_at
    FROM unnest(p_limit_ids) AS u (id)
    JOIN pgqueue_limit AS l ON l.id = u.id
        AND CASE WHEN l.per IS NULL THEN num_nonnulls(l.max_concurrency, l.max_cost) > 0
            ELSE l.parent_id IS NOT NULL END
    JOIN pgqueue_message AS m ON m.status = 2 AND m.channel_id = coalesce(l.channel_id, m.channel_id)
        AND (coalesce(l.parent_id, l.id) = ANY (m.limits) OR EXISTS (
            SELECT FROM pgqueue_limit_handler AS h
            WHERE h.handler = m.handler AND h.limit_id = coalesce(l.parent_id, l.id)));
    UPDATE pgqueue_meter AS r SET place_floor = '-infinity' WHERE r.limit_id = ANY (p_limit_ids);
END;
$$;
