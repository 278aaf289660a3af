-- Decides for a leased message how its wait for an event ended, and keeps that.
-- Returns no row if the message has not waited yet and the event is not there; else the payload, or NULL: the time is
-- over. A later event does not change it.
-- Locks: as pgqueue_step_hold; the row of the step.
-- Errors: PGQ02 the lease is lost.
CREATE FUNCTION pgqueue_step_event(p_id bigint, p_token uuid, p_name text)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF NOT pgqueue_step_hold(p_id, p_token) THEN
        PERFORM pgqueue_lease_lost(ARRAY[p_id], '{}');
    END IF;
    INSERT INTO pgqueue_step AS s (message_id, kind, name, value)
    SELECT p_id, 'wait', p_name, e.payload FROM pgqueue_event AS e WHERE e.name = p_name
    ON CONFLICT (message_id, kind, name) DO UPDATE SET value = excluded.value, until = NULL
    WHERE s.until IS NOT NULL;
    UPDATE pgqueue_step AS s SET until = NULL
    WHERE s.message_id = p_id AND s.kind = 'wait' AND s.name = p_name AND s.until IS NOT NULL;
    RETURN QUERY
    SELECT s.value FROM pgqueue_step AS s WHERE s.message_id = p_id AND s.kind = 'wait' AND s.name = p_name;
END;
$$;
