-- Locks the lane of a channel, and makes it first when there is none: a channel keeps its lane for good.
-- Returns the lane and where it is stored; place is NULL while another transaction holds the lane, or makes it.
-- Locks: the lane, SKIP LOCKED; pg_try_advisory_xact_lock. It never waits.
CREATE FUNCTION pgqueue_lock_lane(
    p_channel_id bigint,
    OUT place tid,
    OUT parked_until timestamptz,
    OUT floor_rank smallint,
    OUT floor_at timestamptz,
    OUT floor_id bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_seq bigint;
BEGIN
    -- The newest entry of the index is the live one. It is looked up first: a search for one to lock would walk all
    -- dead entries.
    SELECT l.seq INTO v_seq FROM pgqueue_lane AS l WHERE l.channel_id = p_channel_id ORDER BY l.seq DESC LIMIT 1;
    IF FOUND THEN
        SELECT l.ctid, l.parked_until, l.floor_rank, l.floor_at, l.floor_id
        INTO place, parked_until, floor_rank, floor_at, floor_id
        FROM pgqueue_lane AS l WHERE l.channel_id = p_channel_id AND l.seq = v_seq
        FOR UPDATE SKIP LOCKED;
    ELSIF pg_try_advisory_xact_lock(hashint8extended(p_channel_id, 7205)) THEN
        -- This look is repeated: another transaction may have made the lane before this one had the lock.
        INSERT INTO pgqueue_lane AS l (channel_id, queue)
        SELECT c.id, c.queue FROM pgqueue_channel AS c
        WHERE c.id = p_channel_id AND NOT EXISTS (SELECT FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id)
        RETURNING l.ctid, l.parked_until, l.floor_rank, l.floor_at, l.floor_id
        INTO place, parked_until, floor_rank, floor_at, floor_id;
    END IF;
END;
$$;
