-- Returns the ids of shared limits by their names, in order; NULL for none.
-- Caller: pgqueue_enqueue, pgqueue_enqueue_many.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_ids(p_names text[])
RETURNS bigint[]
LANGUAGE sql
STABLE
AS $$
SELECT array_agg(l.id ORDER BY l.id) FROM pgqueue_limit AS l WHERE l.name = ANY (p_names);
$$;
