-- Charges the rate of a channel for messages that cost more than was known when they were leased, or gives back what
-- they cost less.
-- p_place: the lane, which the caller has locked; p_cost: the difference (pgqueue_adjust_rates).
-- Returns where the lane is stored now.
-- Locks: none beyond those of the caller.
CREATE FUNCTION pgqueue_charge_lane(p_place tid, p_cost bigint)
RETURNS tid
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_rate record;
BEGIN
    SELECT c.release_interval AS step, c.release_burst AS burst,
        pgqueue_bucket_time(l.next_at, l.debt, c.release_interval, c.release_burst, v_now)
            + pgqueue_token_time(c.release_interval, p_cost) AS next_at
    INTO v_rate
    FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id
    WHERE l.ctid = p_place AND c.release_interval IS NOT NULL AND isfinite(l.next_at);
    IF NOT FOUND THEN
        RETURN p_place;
    END IF;
    UPDATE pgqueue_lane AS l
    SET next_at = v_rate.next_at, debt = nullif(greatest(
        ceil(extract(epoch FROM v_rate.next_at - v_now) / extract(epoch FROM v_rate.step)) - v_rate.burst, 0), 0)
    WHERE l.ctid = p_place
    RETURNING l.ctid INTO p_place;
    RETURN p_place;
END;
$$;
