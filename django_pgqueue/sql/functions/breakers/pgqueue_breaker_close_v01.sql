-- Closes a breaker by hand: its messages go on at once, and failures are counted anew.
-- p_queue, p_channel: the channel of a breaker by channel; p_channel NULL: the breaker of the handler.
-- Returns closed, also when it was not open; or the refusal PGQ07: there is no such breaker.
-- Locks: the rows of the breaker.
CREATE FUNCTION pgqueue_breaker_close(
    p_handler text,
    p_queue text DEFAULT 'default',
    p_channel text DEFAULT NULL,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_found record;
BEGIN
    SELECT f.id, f.refusal INTO v_found FROM pgqueue_find_breaker(p_handler, p_queue, p_channel) AS f;
    refusal := v_found.refusal;
    UPDATE pgqueue_limit AS l SET opened_at = NULL, open_until = NULL, closed_at = clock_timestamp()
    WHERE l.id = v_found.id;
    outcome := coalesce(refusal ->> 'outcome', 'closed');
END;
$$;
