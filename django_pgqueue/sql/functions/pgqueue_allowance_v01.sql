-- How many messages a limited channel may be given now.
-- Caller: pgqueue_take, which holds the channel's lane, so that nobody else can lease from the channel meanwhile. The channel's row is
--   read here, after the lane was locked: what changes later leaves an arrival that cannot be folded before the lane is free again.
-- Occupancy is counted from the leases themselves: there is no counter that a crash could leak. The rate is a token bucket kept as
-- the theoretical arrival time of the next message (GCRA, ITU-T I.371).
-- Returns messages: at most p_quota; room: free places under max_concurrency (0 when paused, null without); next_at: the bucket's time;
--   lease_floor: no live lease of the channel is older. Locks: none.
CREATE FUNCTION pgqueue_allowance(
    p_channel_id bigint,
    p_now timestamptz,
    p_quota integer,
    p_next_at timestamptz,
    p_lease_floor timestamptz,
    OUT messages integer,
    OUT room integer,
    OUT next_at timestamptz,
    OUT lease_floor timestamptz
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_channel pgqueue_channel;
    v_running integer;
    v_oldest timestamptz;
BEGIN
    SELECT c.* INTO v_channel FROM pgqueue_channel AS c WHERE c.id = p_channel_id;
    messages := p_quota;
    next_at := p_next_at;
    lease_floor := p_lease_floor;
    IF v_channel.released_at IS NOT NULL THEN
        RETURN;
    ELSIF v_channel.paused_at IS NOT NULL THEN
        room := 0;
    ELSIF v_channel.max_concurrency IS NOT NULL THEN
        SELECT count(*), min(m.leased_at) INTO v_running, v_oldest
        FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 2 AND m.leased_at >= p_lease_floor;
        room := v_channel.max_concurrency - v_running;
        -- While the limit is new, leases that were taken without it may be on their way to be committed.
        IF coalesce(v_channel.changed_at, '-infinity') < p_now - interval '10 minutes' THEN
            lease_floor := coalesce(v_oldest, p_now) - interval '1 second';
        END IF;
    END IF;
    IF v_channel.release_interval IS NOT NULL THEN
        -- The upper bound lets a shortened interval hold at once. It goes by the clock of this moment: another session may have taken
        -- a message since p_now was read.
        next_at := least(greatest(p_next_at, p_now), clock_timestamp() + v_channel.release_burst * v_channel.release_interval);
        messages := least(
            messages,
            floor(
                extract(epoch FROM p_now + (v_channel.release_burst - 1) * v_channel.release_interval - next_at)
                / extract(epoch FROM v_channel.release_interval)) + 1);
    END IF;
    messages := greatest(least(messages, room), 0);
END;
$$;
