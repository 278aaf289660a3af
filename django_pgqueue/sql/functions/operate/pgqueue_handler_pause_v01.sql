-- Pauses a handler: its messages of all channels and queues wait, and block no others. Those that are leased go on. No
-- attempt is counted.
-- The pause is that of a shared limit, "handler <name>", which all messages of the handler have from then on.
-- p_until: when the sweep resumes it; NULL: it stays paused until pgqueue_handler_resume.
-- Returns paused; or the refusal PGQ07.
-- Locks: the limit's own row.
CREATE FUNCTION pgqueue_handler_pause(
    p_handler text,
    p_reason text DEFAULT '',
    p_until timestamptz DEFAULT NULL,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    refusal := pgqueue_past_pause(p_until);
    IF refusal IS NULL THEN
        refusal := (pgqueue_limit_set(pgqueue_handler_limit(p_handler),
            jsonb_build_object('handlers', jsonb_build_array(p_handler)))).refusal;
    END IF;
    IF refusal IS NULL THEN
        refusal := (pgqueue_limit_pause(pgqueue_handler_limit(p_handler), p_reason, p_until)).refusal;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'paused');
END;
$$;
