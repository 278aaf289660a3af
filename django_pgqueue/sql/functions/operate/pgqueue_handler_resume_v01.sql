-- Ends the pause of a handler.
-- Returns resumed, also when it was not paused.
-- Locks: the row of the handler's limit.
CREATE FUNCTION pgqueue_handler_resume(p_handler text)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    PERFORM pgqueue_limit_resume(pgqueue_handler_limit(p_handler));
    RETURN 'resumed';
END;
$$;
