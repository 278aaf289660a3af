-- Returns what is wrong with the shared limits, the cost or the order key of a new message, in words; NULL when nothing
-- is.
-- Caller: pgqueue_any_invalid, pgqueue_enqueue, pgqueue_ingest_insert, pgqueue_message_arrived, pgqueue_withhold.
-- p_limits: a JSON array of names.
-- Locks: none.
CREATE FUNCTION pgqueue_metering_problem(p_limits jsonb, p_cost integer, p_order_key text)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF p_cost < 1 THEN
        RETURN 'cost is less than 1';
    ELSIF p_order_key = '' THEN
        RETURN 'the order key is empty: leave it out';
    ELSIF length(p_order_key) > 200 THEN
        RETURN 'the order key is longer than 200 characters';
    ELSIF p_limits IS NULL OR p_limits = 'null' THEN
        RETURN NULL;
    ELSIF jsonb_typeof(p_limits) <> 'array' OR p_limits @? '$[*] ? (@.type() != "string")' THEN
        RETURN 'limits is not an array of names';
    END IF;
    RETURN (
        SELECT format('there is no limit "%s": if code declares it, run migrate or restart a worker; else make it '
            'with limit_set', min(u.name))
        FROM jsonb_array_elements_text(p_limits) AS u (name)
        WHERE NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.name = u.name AND l.breaker_failures IS NULL)
        HAVING count(*) > 0);
END;
$$;
