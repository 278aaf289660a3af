-- Computes how many messages a limited channel may be given now.
-- The caller holds the channel's lane, so no other transaction can lease from the channel meanwhile. The channel's row
-- is read here, after the lane was locked: a later change leaves an arrival that cannot be folded before the lane is
-- free again.
-- Occupancy is counted from the leases themselves: there is no counter that a crash could leak. The rate is a token
-- bucket kept as the theoretical arrival time of the next message (GCRA, ITU-T I.371). p_debt: see pgqueue_lane;
-- p_taken: messages that the same call has taken and not leased yet, which count as leases.
-- Returns no row when p_now lies before the floor of the leases, because the process stood still since it read the
--   clock: the count would miss leases of later calls. messages: at most p_quota; room: free places under
--   max_concurrency (0 when paused, or when p_current_id holds an ordered channel; NULL without that limit, which a
--   released channel has only when it is ordered); look_at: when to look again after they are used; next_at: the
--   bucket's time; step, slack: how far a message of cost 1 moves it, and how far it may be ahead of the clock; tokens,
--   burst: in the bucket, and the most it has, NULL without a rate; lease_floor: no live lease of the channel is older.
-- Locks: none.
-- The function is STABLE, so that it becomes a part of the statement that calls it, for one lane or for many.
CREATE FUNCTION pgqueue_allowance(
    p_channel_id bigint,
    p_now timestamptz,
    p_quota integer,
    p_next_at timestamptz,
    p_debt bigint,
    p_lease_floor timestamptz,
    p_current_id bigint,
    p_taken bigint[]
)
RETURNS TABLE (
    messages integer, room integer, look_at timestamptz, next_at timestamptz, step interval, slack interval,
    tokens numeric, burst integer, lease_floor timestamptz
)
LANGUAGE sql
STABLE
AS $$
    SELECT greatest(least(p_quota, r.room, floor(b.tokens)), 0)::integer, r.room,
        -- A settlement that did not see a new limit does not tell that it frees a place: look again by ourselves for a
        -- while.
        CASE
            WHEN h.held_until IS NOT NULL THEN h.held_until
            WHEN c.paused_at IS NULL AND c.changed_at > p_now - interval '10 minutes' THEN p_now + interval '5 seconds'
            ELSE 'infinity'
        END,
        b.next_at, coalesce(r.interval, '0'), (c.release_burst - 1) * r.interval, b.tokens,
        CASE WHEN b.tokens IS NOT NULL THEN c.release_burst END,
        -- While the limit is new, leases that were taken without it may be on their way to be committed.
        CASE
            WHEN r.room IS NOT NULL AND c.paused_at IS NULL
                AND coalesce(c.changed_at, '-infinity') < p_now - interval '10 minutes'
                THEN coalesce(o.oldest, p_now) - interval '1 second'
            ELSE f.lease_floor
        END
    FROM pgqueue_channel AS c
    -- A floor from the future means that the clock was set back: then all leases are counted.
    CROSS JOIN (
        SELECT CASE WHEN p_lease_floor > p_now THEN '-infinity' ELSE p_lease_floor END AS lease_floor
    ) AS f
    CROSS JOIN LATERAL (
        SELECT count(*) + (
                SELECT count(*) FROM pgqueue_message AS t WHERE t.id = ANY (p_taken) AND t.channel_id = p_channel_id
            ) AS running, min(m.leased_at) AS oldest
        FROM pgqueue_message AS m
        WHERE c.max_concurrency IS NOT NULL
            AND (c.released_at IS NULL AND c.paused_at IS NULL OR c.released_at IS NOT NULL AND c.ordered)
            AND m.channel_id = p_channel_id AND m.status = 2 AND m.leased_at >= f.lease_floor
    ) AS o
    -- The message of an ordered channel that was taken last is held after a failure or a deferral, and while it waits
    -- for a shared limit. The cast is as in pgqueue_announce.
    CROSS JOIN LATERAL (
        SELECT max(CASE WHEN m.waits_for >= 0 THEN 'infinity' ELSE m.held_until END) AS held_until
        FROM pgqueue_message AS m
        WHERE c.ordered AND m.id = p_current_id AND m.channel_id = p_channel_id
            AND (m.status::integer = 1 AND m.held_until > p_now OR m.status::integer = 3 AND m.waits_for >= 0)
    ) AS h
    CROSS JOIN LATERAL (
        SELECT CASE
                WHEN c.released_at IS NOT NULL AND NOT c.ordered THEN NULL
                WHEN h.held_until IS NOT NULL OR c.released_at IS NULL AND c.paused_at IS NOT NULL THEN 0
                ELSE (c.max_concurrency - o.running)::integer
            END AS room,
            CASE WHEN c.released_at IS NULL THEN c.release_interval END AS interval
    ) AS r
    CROSS JOIN LATERAL (
        -- The upper bound lets a shortened interval hold at once. It goes by the clock of this moment: another session
        -- may have taken a message since p_now was read.
        SELECT CASE
                WHEN r.interval IS NULL THEN p_next_at
                ELSE pgqueue_bucket_time(
                    greatest(p_next_at, p_now), p_debt, r.interval, c.release_burst, clock_timestamp())
            END AS next_at
    ) AS t
    CROSS JOIN LATERAL (
        SELECT t.next_at,
            extract(epoch FROM p_now + (c.release_burst - 1) * r.interval - t.next_at)
                / extract(epoch FROM r.interval) + 1 AS tokens
    ) AS b
    WHERE c.id = p_channel_id AND (p_now >= p_lease_floor OR clock_timestamp() < p_lease_floor);
$$;
