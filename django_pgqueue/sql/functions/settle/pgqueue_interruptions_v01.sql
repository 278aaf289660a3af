-- Returns how often a stop of its worker has interrupted a message, by its errors. They have the only count of it, so
-- that a dequeue and a completion neither read nor write one.
-- Locks: none.
CREATE FUNCTION pgqueue_interruptions(p_errors jsonb)
RETURNS integer
LANGUAGE sql
IMMUTABLE
AS $$
SELECT coalesce(jsonb_array_length(jsonb_path_query_array(p_errors, '$[*].interruption')), 0);
$$;
