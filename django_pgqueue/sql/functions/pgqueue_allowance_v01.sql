-- How many messages a limited channel may be given now.
-- Caller: pgqueue_take, which holds the channel's lane, so that nobody else can lease from the channel meanwhile.
-- Occupancy is counted from the leases themselves: there is no counter that a crash could leak. The rate is a token bucket kept as
-- the theoretical arrival time of the next message (GCRA, ITU-T I.371).
-- Returns messages: at most p_quota; room: free places under max_concurrency (0 when paused, null without); next_at: the bucket's time;
--   lease_floor: no live lease of the channel is older. Locks: none.
CREATE FUNCTION pgqueue_allowance(
    p_channel_id bigint,
    p_now timestamptz,
    p_quota integer,
    p_paused_at timestamptz,
    p_max_concurrency integer,
    p_lease_floor timestamptz,
    p_release_interval interval,
    p_release_burst integer,
    p_next_at timestamptz,
    OUT messages integer,
    OUT room integer,
    OUT next_at timestamptz,
    OUT lease_floor timestamptz
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_running integer;
BEGIN
    messages := p_quota;
    next_at := p_next_at;
    lease_floor := p_lease_floor;
    IF p_paused_at IS NOT NULL THEN
        room := 0;
    ELSIF p_max_concurrency IS NOT NULL THEN
        SELECT count(*), coalesce(min(m.leased_at), p_now) INTO v_running, lease_floor
        FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 2 AND m.leased_at >= p_lease_floor;
        room := p_max_concurrency - v_running;
    END IF;
    IF p_release_interval IS NOT NULL THEN
        next_at := greatest(p_next_at, p_now);
        messages := least(
            messages,
            floor(extract(epoch FROM p_now + (p_release_burst - 1) * p_release_interval - next_at) / extract(epoch FROM p_release_interval)) + 1);
    END IF;
    messages := greatest(least(messages, room), 0);
END;
$$;
