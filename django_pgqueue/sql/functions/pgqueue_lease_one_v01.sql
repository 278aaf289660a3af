-- Checks one message that is about to be leased against its shared limits, as pgqueue_lease_within does. Most messages
-- need no more than the look here: they have no limit, and the breaker of their handler is closed.
-- Caller: pgqueue_dequeue.
-- p_id: locked by the caller; p_now: its reading of the clock. The settings of the caller pin the plan.
-- Returns the id if the message may be leased, else NULL; its channel keeps its turn then.
-- Locks: as pgqueue_lease_within and pgqueue_keep_turns.
CREATE FUNCTION pgqueue_lease_one(p_id bigint, p_now timestamptz)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_id bigint := p_id;
BEGIN
    IF EXISTS (SELECT FROM pgqueue_must_ask(ARRAY[p_id])) THEN
        v_id := (pgqueue_lease_within(ARRAY[p_id], p_now))[1];
        IF v_id IS NULL THEN
            PERFORM pgqueue_keep_turns(ARRAY[p_id]);
        END IF;
    END IF;
    RETURN v_id;
END;
$$;
