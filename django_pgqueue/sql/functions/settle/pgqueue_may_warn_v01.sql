-- Returns whether a warning of this kind may go to the server log now: at most one in ten seconds, so that an incident
-- does not fill the disk.
-- A sequence keeps the time of the last warning: it must not be rolled back, and two sessions must not wait for each
-- other.
-- Locks: none.
CREATE FUNCTION pgqueue_may_warn(p_kind text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_sequence regclass := format('pgqueue_warned_%s', p_kind)::regclass;
    v_now bigint := extract(epoch FROM clock_timestamp());
    v_last bigint;
BEGIN
    v_last := CASE p_kind
        WHEN 'dead_letter' THEN (SELECT s.last_value FROM pgqueue_warned_dead_letter AS s)
        ELSE (SELECT s.last_value FROM pgqueue_warned_lease_expired AS s)
    END;
    IF v_now - v_last < 10 THEN
        RETURN false;
    END IF;
    PERFORM setval(v_sequence, v_now);
    RETURN true;
END;
$$;
