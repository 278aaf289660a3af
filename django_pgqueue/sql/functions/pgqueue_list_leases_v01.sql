-- Lists the messages that a dequeue has taken at the gate of a queue with limits, and charges the rate of the queue.
-- Caller: pgqueue_dequeue_guarded, pgqueue_take_guarded.
-- p_room: what pgqueue_queue_allowance has returned; p_at: the reading of the clock by which they were taken; p_cost:
-- what they cost; p_wanted: as in pgqueue_take_turn.
-- Locks: none beyond the gate, which the caller holds.
CREATE FUNCTION pgqueue_list_leases(
    p_room pgqueue_queue_room, p_ids bigint[], p_at timestamptz, p_cost bigint, p_wanted integer
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE pgqueue_gate AS g
    SET seq = nextval('pgqueue_gate_seq'), held = p_room.ids || p_ids, seen_at = p_room.seen_at,
        -- The rate counts from the moment of the leases, not from the one when the call began.
        next_at = greatest(p_room.next_at, p_at) + pgqueue_token_time(p_room.step, p_cost),
        debt = CASE WHEN p_room.step > '0' THEN nullif(greatest(p_cost - floor(p_room.tokens), 0), 0) END,
        wanted = p_wanted
    WHERE g.ctid = p_room.place;
END;
$$;
