-- Writes down that a breaker has opened or closed, when its outcomes say so.
-- The caller has locked p_breaker, so one transaction alone writes each change.
-- Returns the row as it is then.
-- Locks: none beyond the row that the caller holds.
CREATE FUNCTION pgqueue_turn_breaker(p_breaker pgqueue_limit, p_now timestamptz)
RETURNS pgqueue_limit
LANGUAGE plpgsql
AS $$
DECLARE
    v_until timestamptz := pgqueue_breaker_until(p_breaker, coalesce(p_breaker.channel_id, 0));
BEGIN
    IF (v_until IS NULL) = (p_breaker.open_until IS NULL) THEN
        RETURN p_breaker;
    END IF;
    UPDATE pgqueue_limit AS l
    SET open_until = v_until, opened_at = v_until - l.breaker_pause,
        closed_at = CASE WHEN v_until IS NULL THEN p_now END,
        openings = l.openings + CASE WHEN v_until IS NULL THEN 0 ELSE 1 END
    WHERE l.id = p_breaker.id
    RETURNING l.* INTO p_breaker;
    IF v_until IS NULL THEN
        RAISE LOG 'pgqueue: the % is closed again: a message has succeeded', p_breaker.name;
    ELSE
        RAISE WARNING 'pgqueue: the % is open until %, after % failures in a row within %', p_breaker.name, v_until,
            p_breaker.breaker_failures, p_breaker.breaker_within
            USING HINT = 'Its messages wait, and one tries then. '
                'pgqueue_breaker_close closes it now, when the cause is gone.';
    END IF;
    RETURN p_breaker;
END;
$$;
