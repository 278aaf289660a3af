-- Returns the ids of shared limits by their names, in order; NULL for none. Names that do not exist are left out: the
-- callers have refused them (pgqueue_metering_problem).
-- p_names: a JSON array.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_ids(p_names jsonb)
RETURNS bigint[]
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (
        SELECT array_agg(l.id ORDER BY l.id) FROM pgqueue_limit AS l
        WHERE l.parent_id IS NULL AND l.name = ANY (ARRAY(SELECT jsonb_array_elements_text(nullif(p_names, 'null')))));
END;
$$;
