-- Makes the places of shared limits anew, from the leases of their messages.
-- p_limit_ids: limits whose rows the caller has written or locked. Those with a rate only keep no places.
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
    JOIN pgqueue_limit AS l ON l.id = u.id AND (l.max_concurrency IS NOT NULL OR l.max_cost IS NOT NULL)
    JOIN pgqueue_message AS m ON m.status = 2 AND (u.id = ANY (m.limits)
        OR EXISTS (SELECT FROM pgqueue_limit_handler AS h WHERE h.handler = m.handler AND h.limit_id = u.id));
    UPDATE pgqueue_meter AS r SET place_floor = '-infinity' WHERE r.limit_id = ANY (p_limit_ids);
END;
$$;
