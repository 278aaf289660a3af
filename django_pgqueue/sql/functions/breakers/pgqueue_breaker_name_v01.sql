-- Returns the name of the shared limit that is the breaker of a handler.
-- Locks: none.
CREATE FUNCTION pgqueue_breaker_name(p_handler text)
RETURNS text
LANGUAGE sql
IMMUTABLE
AS $$
SELECT 'breaker of ' || p_handler;
$$;
