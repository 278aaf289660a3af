-- Checks one message that is about to be leased against its shared limits, as pgqueue_lease_within does. Most messages
-- need no more than the look here: they have no limit, and the breaker of their handler is closed.
-- Caller: pgqueue_dequeue.
-- p_id: locked by the caller; p_now: its reading of the clock. The settings of the caller pin the plan.
-- Returns the id if the message may be leased, else NULL.
-- Locks: as pgqueue_lease_within.
CREATE FUNCTION pgqueue_lease_one(p_id bigint, p_now timestamptz)
RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN CASE
        WHEN EXISTS (SELECT FROM pgqueue_must_ask(ARRAY[p_id])) THEN (pgqueue_lease_within(ARRAY[p_id], p_now))[1]
        ELSE p_id
    END;
END;
$$;
