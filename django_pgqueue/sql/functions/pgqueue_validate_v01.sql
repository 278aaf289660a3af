-- Refuses what no message may be, with an error that says what to do.
-- Caller: pgqueue_enqueue, pgqueue_enqueue_many. Locks: none. Errors: PGQ07 invalid message.
CREATE FUNCTION pgqueue_validate(
    p_handler text,
    p_priority integer,
    p_dequeue_at timestamptz,
    p_delay interval,
    p_max_attempts integer,
    p_backoff interval,
    p_backoff_factor double precision,
    p_backoff_longest interval,
    p_dedupe_key text
)
RETURNS void
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    v_problem text;
BEGIN
    v_problem := CASE
        WHEN p_handler IS NULL OR p_handler = '' THEN 'the handler has no name'
        WHEN length(p_handler) > 200 THEN 'the name of the handler is longer than 200 characters'
        WHEN p_priority IS NULL OR p_priority NOT BETWEEN -32767 AND 32767 THEN 'the priority is not between -32767 and 32767'
        WHEN p_dequeue_at IS NOT NULL AND p_delay IS NOT NULL THEN 'both dequeue_at and delay are given: give one'
        WHEN NOT isfinite(p_dequeue_at) THEN 'dequeue_at is infinite'
        WHEN p_max_attempts IS NULL OR p_max_attempts < 1 THEN 'max_attempts is less than 1'
        WHEN p_backoff < '0' THEN 'backoff is negative'
        WHEN p_backoff_factor NOT BETWEEN 1 AND 1000 THEN 'backoff_factor is not between 1 and 1000'
        WHEN p_backoff_longest < '0' THEN 'backoff_longest is negative'
        WHEN length(p_dedupe_key) > 200 THEN 'the dedupe key is longer than 200 characters'
    END;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'invalid message: %', v_problem USING ERRCODE = 'PGQ07';
    END IF;
END;
$$;
