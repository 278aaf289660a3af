-- Lists the messages that a dequeue has taken from a queue with limits, at its gate or beside it, and charges the rate
-- of the queue.
-- p_room: what pgqueue_queue_allowance or pgqueue_enter_beside has returned; p_at: the reading of the clock by which
-- they were taken; p_cost: what they cost; p_wanted: as in pgqueue_take_turn.
-- Returns where the list is stored now.
-- Locks: none beyond the gate or the side, which the caller holds.
CREATE FUNCTION pgqueue_list_leases(
    p_queue text, p_room pgqueue_queue_room, p_ids bigint[], p_at timestamptz, p_cost bigint, p_wanted integer
)
RETURNS tid
LANGUAGE plpgsql
AS $$
DECLARE
    v_place tid;
BEGIN
    IF p_room.side IS NULL THEN
        UPDATE pgqueue_gate AS g
        SET seq = nextval('pgqueue_gate_seq'), held = p_room.ids || p_ids, seen_at = p_room.seen_at,
            -- The rate counts from the moment of the leases, not from the one when the call began.
            next_at = greatest(p_room.next_at, p_at) + pgqueue_token_time(p_room.step, p_cost),
            debt = CASE WHEN p_room.step > '0' THEN nullif(greatest(p_cost - floor(p_room.tokens), 0), 0) END,
            wanted = p_wanted
        WHERE g.ctid = p_room.place
        RETURNING g.ctid INTO v_place;
    ELSIF p_room.place IS NULL THEN
        INSERT INTO pgqueue_gate_side AS s (queue, side, seq, held)
        VALUES (p_queue, p_room.side, nextval('pgqueue_gate_seq'), p_ids)
        RETURNING s.ctid INTO v_place;
    ELSE
        UPDATE pgqueue_gate_side AS s SET seq = nextval('pgqueue_gate_seq'), held = p_room.ids || p_ids
        WHERE s.ctid = p_room.place
        RETURNING s.ctid INTO v_place;
    END IF;
    RETURN v_place;
END;
$$;
