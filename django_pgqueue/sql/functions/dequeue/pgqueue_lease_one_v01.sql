-- Checks one message that is about to be leased against its shared limits, as pgqueue_lease_within does. Most messages
-- need no more than the look here: they have no limit, and the breaker of their handler is closed. For most others,
-- pgqueue_take_alike is enough.
-- p_id: locked by the caller; p_now: its reading of the clock; p_beside: as in pgqueue_hold_limit. The settings of the
-- caller pin the plan.
-- Returns the id if the message may be leased; 0: it stays ready, because another transaction holds its limit, and the
--   caller would only find it again; NULL: it was set aside. In both cases its channel keeps its turn.
-- Locks: as pgqueue_lease_within and pgqueue_keep_turns.
CREATE FUNCTION pgqueue_lease_one(p_id bigint, p_now timestamptz, p_beside boolean)
RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_must_ask(ARRAY[p_id])) THEN
        RETURN p_id;
    ELSIF pgqueue_take_alike(ARRAY[p_id], p_now, p_beside) THEN
        RETURN p_id;
    ELSIF pgqueue_lease_within(ARRAY[p_id], p_now, true, p_beside) = '{}' THEN
        PERFORM pgqueue_keep_turns(ARRAY[p_id]);
        -- coalesce keeps the index of promoted messages out, which a condition on the column alone would suit.
        RETURN (SELECT 0 FROM pgqueue_message AS m WHERE m.id = p_id AND coalesce(m.promoted_for, 0) = -1);
    END IF;
    RETURN p_id;
END;
$$;
