-- Raises a refusal as an error, with its SQLSTATE; does nothing with NULL.
-- Caller: anyone who prefers an exception to an outcome; the insert trigger, which cannot return one. Locks: none.
-- Errors: PGQ01, PGQ03, PGQ04, PGQ05, PGQ06, PGQ07, PGQ09, PGQ10: that of the refusal.
CREATE FUNCTION pgqueue_raise(p_refusal jsonb)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_refusal IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = p_refusal ->> 'sqlstate', MESSAGE = p_refusal ->> 'message', HINT = coalesce(p_refusal ->> 'hint', '');
    END IF;
END;
$$;
