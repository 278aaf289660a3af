-- Opens a breaker by hand: its messages wait, and one tries after p_until.
-- p_until: NULL: after the pause of the breaker. p_queue, p_channel: the channel of a breaker by channel; p_channel
-- NULL: the breaker of the handler.
-- Returns open; or the refusal PGQ07: there is no such breaker, or p_until has passed, or is no end.
-- Locks: the rows of the breaker.
CREATE FUNCTION pgqueue_breaker_open(
    p_handler text,
    p_queue text DEFAULT 'default',
    p_channel text DEFAULT NULL,
    p_until timestamptz DEFAULT NULL,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_found record;
BEGIN
    refusal := CASE
        WHEN p_until = 'infinity' THEN pgqueue_refusal('PGQ07', 'a breaker cannot be open without an end',
            'Use pgqueue_handler_pause().')
        ELSE pgqueue_past_pause(p_until)
    END;
    IF refusal IS NULL THEN
        SELECT f.id, f.refusal INTO v_found FROM pgqueue_find_breaker(p_handler, p_queue, p_channel) AS f;
        refusal := v_found.refusal;
    END IF;
    IF refusal IS NULL THEN
        UPDATE pgqueue_limit AS l
        SET opened_at = v_now, open_until = coalesce(p_until, v_now + l.breaker_pause), closed_at = NULL,
            openings = l.openings + CASE WHEN l.open_until IS NULL THEN 1 ELSE 0 END
        WHERE l.id = v_found.id;
    END IF;
    outcome := coalesce(refusal ->> 'outcome', 'open');
END;
$$;
