-- Puts lanes whose time has come back at the tail of the line.
-- Caller: pgqueue_take, pgqueue_tick. Locks: lanes, SKIP LOCKED.
CREATE FUNCTION pgqueue_unpark(p_queue text, p_from timestamptz, p_until timestamptz, p_limit integer)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_count integer;
BEGIN
    UPDATE pgqueue_lane AS l
    SET parked_until = NULL,
        seq = nextval('pgqueue_lane_seq')
    WHERE l.ctid = ANY (ARRAY(
        SELECT p.ctid FROM pgqueue_lane AS p
        WHERE p.queue = p_queue AND p.parked_until >= p_from AND p.parked_until <= p_until
        ORDER BY p.parked_until
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END;
$$;
