-- Returns the name of the shared limit by which a handler is paused.
-- Locks: none.
CREATE FUNCTION pgqueue_handler_limit(p_handler text)
RETURNS text
LANGUAGE sql
IMMUTABLE
AS $$
SELECT 'handler ' || p_handler;
$$;
