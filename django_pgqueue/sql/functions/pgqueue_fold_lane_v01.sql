-- Folds the arrivals of one channel into its lane, whose floor it lowers, and which it brings back into the line.
-- p_again: look at the channel again, whatever its floor; p_rank, p_at, p_id: the lowest key of what arrived, NULL
-- without any; p_spent: a correction of what messages cost the channel's rate (pgqueue_adjust_rates); p_head: the head
-- of the line.
-- A lane that comes back is fresh if the head of the line has passed the place that it drew at its last turn (FQ-CoDel,
-- RFC 8290, section 4).
-- Returns false when another transaction holds the lane, or makes it.
-- Locks: as pgqueue_lock_lane.
CREATE FUNCTION pgqueue_fold_lane(
    p_channel_id bigint, p_again boolean, p_rank smallint, p_at timestamptz, p_id bigint, p_spent bigint, p_head bigint
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_lane record;
    v_lower boolean;
    v_back boolean;
BEGIN
    v_lane := pgqueue_lock_lane(p_channel_id);
    IF v_lane.place IS NULL THEN
        -- Without a lane and a channel, the channel has been removed.
        RETURN NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = p_channel_id);
    END IF;
    IF p_spent <> 0 THEN
        v_lane.place := pgqueue_charge_lane(v_lane.place, p_spent);
    END IF;
    v_lower := (p_rank, p_at, p_id) < (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id);
    -- A lane at its limit stays parked when more messages come, unless it waits for the tokens of one that is not the
    -- first any more; an empty one, with an infinite floor, stays when there are none.
    v_back := v_lane.parked_until IS NOT NULL AND CASE WHEN v_lane.floor_at = 'infinity' THEN v_lower
        ELSE p_again OR v_lower AND v_lane.parked_until < 'infinity' END;
    IF v_lower OR v_back THEN
        UPDATE pgqueue_lane AS l
        SET floor_rank = CASE WHEN v_lower THEN p_rank ELSE l.floor_rank END,
            floor_at = CASE WHEN v_lower THEN p_at ELSE l.floor_at END,
            floor_id = CASE WHEN v_lower THEN p_id ELSE l.floor_id END,
            parked_until = CASE WHEN NOT v_back THEN l.parked_until END,
            fresh = CASE WHEN v_back THEN l.seq < p_head ELSE l.fresh END,
            seq = CASE WHEN v_back THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
            -- At the tail it must not look like the last lane of an older round.
            round = CASE WHEN v_back AND l.seq >= p_head
                THEN (SELECT r.round FROM pgqueue_round(l.queue, p_head, true, l.round, 0, 1) AS r) ELSE l.round END
        WHERE l.ctid = v_lane.place;
    END IF;
    RETURN true;
END;
$$;
