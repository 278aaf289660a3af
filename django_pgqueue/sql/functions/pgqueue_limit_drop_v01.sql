-- Deletes a shared limit. Messages that wait for it are promoted by the next tick or dequeue, and run without it.
-- Returns dropped, or not_found.
-- Locks: the limit's own row.
CREATE FUNCTION pgqueue_limit_drop(p_name text)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_id bigint;
BEGIN
    DELETE FROM pgqueue_limit AS l WHERE l.name = p_name RETURNING l.id INTO v_id;
    DELETE FROM pgqueue_breaker_outcome AS o WHERE o.limit_id = v_id;
    PERFORM pgqueue_limit_drop(l.name) FROM pgqueue_limit AS l WHERE l.breaker_id = v_id;
    DELETE FROM pgqueue_limit_handler AS h WHERE h.limit_id = v_id;
    DELETE FROM pgqueue_meter AS r WHERE r.limit_id = v_id;
    DELETE FROM pgqueue_place AS p WHERE p.limit_id = v_id;
    DELETE FROM pgqueue_spent AS s WHERE s.limit_id = v_id;
    RETURN CASE WHEN v_id IS NULL THEN 'not_found' ELSE 'dropped' END;
END;
$$;
