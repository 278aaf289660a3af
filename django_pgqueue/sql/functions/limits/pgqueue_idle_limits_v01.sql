-- Returns those of the rows that channels have of shared limits that hold nothing: no message is leased under one, waits
-- for it or was made ready for it, and its rate has all of its tokens. A new row would be the same.
-- Locks: none.
CREATE FUNCTION pgqueue_idle_limits(p_ids bigint[])
RETURNS TABLE (id bigint)
LANGUAGE sql
STABLE
AS $$
SELECT l.id
FROM pgqueue_limit AS l
CROSS JOIN LATERAL pgqueue_limit_room(l, clock_timestamp()) AS r
WHERE l.id = ANY (p_ids) AND r.used = 0 AND (r.tokens >= r.burst) IS NOT FALSE AND r.spent IS NULL
    AND NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.waits_for = l.id)
    AND NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.promoted_for = l.id);
$$;
