-- Returns what is wrong with the shared limits, the cost or the order key of a new message, in words; NULL when nothing
-- is.
-- p_limits: a JSON array of names. p_queue, p_channel, p_handler: of the message, whose rates bound its cost.
-- Locks: none.
CREATE FUNCTION pgqueue_metering_problem(
    p_limits jsonb, p_cost integer, p_order_key text, p_queue text, p_channel text, p_handler text
)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_problem text;
BEGIN
    IF p_cost < 1 THEN
        RETURN 'cost is less than 1';
    ELSIF p_order_key = '' THEN
        RETURN 'the order key is empty: leave it out';
    ELSIF length(p_order_key) > 200 THEN
        RETURN 'the order key is longer than 200 characters';
    ELSIF jsonb_typeof(p_limits) NOT IN ('array', 'null') OR p_limits @? '$[*] ? (@.type() != "string")' THEN
        RETURN 'limits is not an array of names';
    END IF;
    v_problem := (
        SELECT format('there is no limit "%s": if code declares it, run migrate or restart a worker; else make it '
            'with limit_set', min(u.name))
        FROM jsonb_array_elements_text(nullif(p_limits, 'null')) AS u (name)
        WHERE NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.name = u.name AND l.breaker_failures IS NULL AND l.parent_id IS NULL)
        HAVING count(*) > 0);
    IF v_problem IS NULL AND p_cost > 1 THEN
        v_problem := pgqueue_cost_problem(p_cost,
            (SELECT c.id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel), p_handler,
            pgqueue_limit_ids(p_limits));
    END IF;
    RETURN v_problem;
END;
$$;
