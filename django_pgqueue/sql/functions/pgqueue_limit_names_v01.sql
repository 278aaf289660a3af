-- Reads the names of shared limits from a JSON array, in which pgqueue_enqueue_many gets them.
-- Caller: pgqueue_enqueue_many.
-- Returns NULL for NULL, which means none.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_names(p_limits jsonb)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
AS $$
SELECT CASE WHEN p_limits IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(p_limits)) END;
$$;
