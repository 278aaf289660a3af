-- Returns whether dequeues may pass beside each other within a shared limit (pgqueue_hold_side): it bounds the number of
-- its messages, or it is a rate, and nothing else, and it is large.
-- The function is IMMUTABLE, so that it becomes a part of the expression.
-- Locks: none.
CREATE FUNCTION pgqueue_may_pass(p_limit pgqueue_limit)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
AS $$
SELECT CASE WHEN p_limit.release_interval IS NULL THEN p_limit.max_concurrency > 16
        ELSE p_limit.max_concurrency IS NULL AND p_limit.release_burst >= 256 END
    AND p_limit.max_cost IS NULL
    AND p_limit.per IS NULL AND p_limit.breaker_failures IS NULL;
$$;
