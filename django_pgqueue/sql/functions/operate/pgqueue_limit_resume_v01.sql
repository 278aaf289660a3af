-- Ends the pause of a shared limit. The messages that wait for it are promoted by the next dequeue or tick.
-- Returns resumed, also if it was not paused; or the refusal PGQ07, there is no such limit.
-- Locks: the limit's own row.
CREATE FUNCTION pgqueue_limit_resume(p_name text, OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    UPDATE pgqueue_limit AS l SET paused_at = NULL, pause_reason = '', paused_until = NULL WHERE l.name = p_name;
    IF NOT FOUND THEN
        refusal := pgqueue_refusal('PGQ07', format('there is no limit "%s"', p_name),
            'Make it with pgqueue_limit_set().');
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'resumed');
END;
$$;
