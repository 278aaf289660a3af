-- Deletes what is kept beside the rows of limits: places, levels of rates, corrections and outcomes.
-- p_ids: limits whose rows the caller has deleted.
-- Locks: none that another transaction asks for: the holder of the row alone writes them.
CREATE FUNCTION pgqueue_forget_limits(p_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM pgqueue_breaker_outcome AS o WHERE o.limit_id = ANY (p_ids);
    DELETE FROM pgqueue_meter AS r WHERE r.limit_id = ANY (p_ids);
    DELETE FROM pgqueue_place AS p WHERE p.limit_id = ANY (p_ids);
    DELETE FROM pgqueue_spent AS s WHERE s.limit_id = ANY (p_ids);
END;
$$;
