-- Computes when the rate of a queue lets its next message start; NULL without a rate.
-- p_gate: NULL when no message has been taken yet. The bucket is that of pgqueue_queue_allowance.
-- Locks: none.
CREATE FUNCTION pgqueue_gate_time(p_queue pgqueue_queue, p_gate pgqueue_gate)
RETURNS timestamptz
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN pgqueue_bucket_time(coalesce(p_gate.next_at, '-infinity'), p_gate.debt, p_queue.release_interval,
        p_queue.release_burst, clock_timestamp())
        - pgqueue_token_time(p_queue.release_interval, p_queue.release_burst - coalesce(p_gate.wanted, 1));
END;
$$;
