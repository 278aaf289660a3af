-- Pauses a shared limit: no message that has it is leased any more. Those that are leased go on.
-- p_until: when the sweep resumes it; NULL: it stays paused until pgqueue_limit_resume.
-- Returns paused; or the refusal PGQ07: there is no such limit, it is a breaker, or p_until has passed.
-- Locks: the limit's own row, then pg_advisory_xact_lock of it.
CREATE FUNCTION pgqueue_limit_pause(
    p_name text,
    p_reason text DEFAULT '',
    p_until timestamptz DEFAULT NULL,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_id bigint;
BEGIN
    refusal := pgqueue_past_pause(p_until);
    IF refusal IS NULL THEN
        UPDATE pgqueue_limit AS l
        SET paused_at = coalesce(l.paused_at, clock_timestamp()),
            pause_reason = coalesce(p_reason, ''),
            paused_until = nullif(p_until, 'infinity')
        WHERE l.name = p_name AND l.breaker_failures IS NULL AND l.parent_id IS NULL
        RETURNING l.id INTO v_id;
        -- As in pgqueue_limit_set.
        PERFORM pg_advisory_xact_lock(hashint8extended(v_id, 7220)) WHERE v_id IS NOT NULL;
        IF v_id IS NULL THEN
            refusal := CASE
                WHEN EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.name = p_name AND l.parent_id IS NULL) THEN
                    pgqueue_refusal('PGQ07', format('"%s" is a breaker, and cannot be paused', p_name),
                        'Use pgqueue_handler_pause() or pgqueue_breaker_open().')
                ELSE pgqueue_refusal('PGQ07', format('there is no limit "%s"', p_name),
                    'Make it with pgqueue_limit_set().')
            END;
        END IF;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'paused');
END;
$$;
