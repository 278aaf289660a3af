-- Computes when the rate of a queue lets its next message start; NULL without a rate.
-- p_gate: NULL when no message has been taken yet. The bucket is that of pgqueue_queue_allowance, with the corrections
-- that the next dequeue takes in: a message that was set aside for a shared limit gives its tokens back by one.
-- Locks: none.
CREATE FUNCTION pgqueue_gate_time(p_queue pgqueue_queue, p_gate pgqueue_gate)
RETURNS timestamptz
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    -- In a variable, because a subquery as an argument would keep the function from becoming a part of the expression.
    v_spent numeric := (SELECT sum(s.cost) FROM pgqueue_spent AS s WHERE s.queue = p_queue.name);
BEGIN
    RETURN pgqueue_bucket_time(coalesce(p_gate.next_at, '-infinity'), p_gate.debt, p_queue.release_interval,
        p_queue.release_burst, clock_timestamp())
        + coalesce(pgqueue_token_time(p_queue.release_interval, v_spent), '0')
        - pgqueue_token_time(p_queue.release_interval, p_queue.release_burst - coalesce(p_gate.wanted, 1));
END;
$$;
