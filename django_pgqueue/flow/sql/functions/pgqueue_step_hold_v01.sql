-- Locks a leased message, so that its lease cannot end before this transaction does, and lets its settlement delete
-- its steps.
-- Returns false if the lease is lost.
-- Locks: the message, FOR SHARE.
CREATE FUNCTION pgqueue_step_hold(p_id bigint, p_token uuid)
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_flow bigint;
BEGIN
    SELECT m.flow INTO v_flow FROM pgqueue_message AS m WHERE m.id = p_id AND m.lease_token = p_token FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    ELSIF v_flow IS NULL OR v_flow > 0 THEN
        UPDATE pgqueue_message AS m SET flow = -coalesce(m.flow, 0) WHERE m.id = p_id;
    END IF;
    RETURN true;
END;
$$;
