-- Deletes a shared limit. Messages that wait for it are promoted by the next tick or dequeue, and run without it.
-- Returns dropped, or not_found.
-- Locks: the limit's own row, pg_advisory_xact_lock of it, then the rows that channels have of it.
CREATE FUNCTION pgqueue_limit_drop(p_name text)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_id bigint;
    v_ids bigint[];
BEGIN
    DELETE FROM pgqueue_limit AS l WHERE l.name = p_name AND l.parent_id IS NULL RETURNING l.id INTO v_id;
    -- As in pgqueue_limit_set.
    PERFORM pg_advisory_xact_lock(hashint8extended(v_id, 7220)) WHERE v_id IS NOT NULL;
    WITH gone AS (
        DELETE FROM pgqueue_limit AS l WHERE l.parent_id = v_id RETURNING l.id
    )
    SELECT array_agg(g.id) INTO v_ids FROM gone AS g;
    DELETE FROM pgqueue_limit_handler AS h WHERE h.limit_id = v_id;
    PERFORM pgqueue_forget_limits(v_id || v_ids);
    RETURN CASE WHEN v_id IS NULL THEN 'not_found' ELSE 'dropped' END;
END;
$$;
