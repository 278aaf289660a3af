-- Builds the last column of a verb, refusal, for a request that it cannot grant: {"outcome", "sqlstate", "message",
-- "hint"}.
-- The verbs return it instead of raising it, so that the caller's transaction stays usable. The outcome is not_found,
-- full, released, busy, invalid or not_empty; the SQLSTATE names the exception of Python. pgqueue_raise turns it into
-- an error.
-- Locks: none.
CREATE FUNCTION pgqueue_refusal(p_sqlstate text, p_message text, p_hint text DEFAULT '')
RETURNS jsonb
LANGUAGE sql
STABLE
AS $$
SELECT jsonb_build_object(
    'outcome', CASE p_sqlstate
        WHEN 'PGQ04' THEN 'full'
        WHEN 'PGQ05' THEN 'released'
        WHEN 'PGQ06' THEN 'busy'
        WHEN 'PGQ07' THEN 'invalid'
        WHEN 'PGQ10' THEN 'not_empty'
        ELSE 'not_found'
    END,
    'sqlstate', p_sqlstate, 'message', p_message, 'hint', p_hint);
$$;
