-- Raises a refusal as an error, with its SQLSTATE; does nothing with NULL.
-- SQL clients that prefer an exception to an outcome call it, too; the insert trigger cannot return a refusal.
-- Locks: none.
-- Errors: PGQ01, PGQ03, PGQ04, PGQ05, PGQ06, PGQ07, PGQ09, PGQ10: the one of the refusal.
CREATE FUNCTION pgqueue_raise(p_refusal jsonb)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- An empty hint would be shown as an empty line, and NULL is not allowed there.
    IF p_refusal ->> 'hint' <> '' THEN
        RAISE EXCEPTION USING ERRCODE = p_refusal ->> 'sqlstate', MESSAGE = p_refusal ->> 'message',
            HINT = p_refusal ->> 'hint';
    ELSIF p_refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = p_refusal ->> 'sqlstate', MESSAGE = p_refusal ->> 'message';
    END IF;
END;
$$;
