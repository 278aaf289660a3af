-- Returns the newest row of pgqueue_floor, with bounds that hold after a restore and after a step of the clock.
-- p_xid: the xid of this transaction; p_now: its reading of the clock.
-- Locks: none.
CREATE FUNCTION pgqueue_last_floor(p_xid xid8, p_now timestamptz)
RETURNS pgqueue_floor
LANGUAGE plpgsql
AS $$
DECLARE
    v_floor pgqueue_floor;
BEGIN
    SELECT f.* INTO v_floor FROM pgqueue_floor AS f ORDER BY f.id DESC LIMIT 1;
    -- A floor from the future: the database was restored from a dump of an older cluster. Begin anew.
    IF v_floor.next_xid > p_xid OR v_floor.arrival_xid > p_xid THEN
        v_floor.arrival_xid := '0';
        v_floor.next_xid := '0';
        v_floor.late_xids := '{}';
        v_floor.watched_xid := '0';
    END IF;
    -- The clock was set back: a floor of the future would hide the lanes that are parked from now on.
    IF v_floor.ticked_at > p_now OR v_floor.parked_from > p_now THEN
        v_floor.ticked_at := p_now;
        v_floor.parked_from := '-infinity';
        v_floor.expiry_from := '-infinity';
        v_floor.due_from := '-infinity';
        v_floor.watched_at := '-infinity';
    END IF;
    RETURN v_floor;
END;
$$;
