-- Computes how much room a shared limit has now.
-- pgqueue_hold_limit has locked the limit, so no other transaction takes a place meanwhile. Places are counted from the
-- leases themselves: a place counts while its message is under the lease that took it, so a crash leaks none. The rate
-- is a token bucket: one token comes with each release_interval, up to release_burst of them; a message takes its cost.
-- The row of a channel goes by the settings of its limit. A limit for each channel has no room of its own to take: it
-- holds up a message only while it is paused.
-- p_now: the caller's reading of the clock.
-- Returns no row when the caller was stopped since it read the clock: it would miss places of later calls. places,
--   cost: free under max_concurrency and max_cost, NULL without such a limit, no place when paused; tokens: in the
--   bucket, negative while it has debts, NULL without a rate; place_floor: no live place is older; stale: rows of
--   places that are free again; spent: corrections that tokens has in it (pgqueue_spend); turn, turn_left: the channel
--   that was promoted last, and how many more messages its turn has; used, used_cost: the leased messages that have
--   places, and what they cost; awaited, saved_at: see pgqueue_meter; saves: a message saves up, a promotion has seen
--   it within a second, and there is not enough for it; max_cost, burst: the settings that hold.
-- Locks: none.
-- The function is STABLE, so that it becomes a part of the statement that calls it.
CREATE FUNCTION pgqueue_limit_room(p_limit pgqueue_limit, p_now timestamptz)
RETURNS TABLE (
    places bigint, cost bigint, tokens double precision, place_floor timestamptz, stale tid[], spent tid[], turn bigint,
    turn_left integer, used bigint, used_cost bigint, awaited text[], saved_at timestamptz,
    saves boolean, max_cost integer, burst integer
)
LANGUAGE sql
STABLE
AS $$
    SELECT CASE
            WHEN l.paused_at IS NOT NULL THEN 0
            WHEN l.max_concurrency IS NOT NULL THEN greatest(l.max_concurrency - o.places, 0)
            WHEN p_limit.open_until IS NOT NULL
                THEN CASE
                    WHEN pgqueue_breaker_until(p_limit, coalesce(p_limit.channel_id, 0)) > p_now THEN 0
                    WHEN pgqueue_breaker_until(p_limit, coalesce(p_limit.channel_id, 0)) IS NOT NULL
                        THEN greatest(1 - o.places, 0)
                END
        END,
        CASE WHEN l.max_cost IS NOT NULL THEN greatest(l.max_cost - o.cost, 0) END, t.tokens,
        coalesce(o.oldest, p_now) - interval '1 second', o.stale, s.spent, coalesce(r.turn, 0),
        coalesce(r.turn_left, 0), o.places, o.cost, r.awaited, r.saved_at,
        (r.saved_at > p_now - interval '1 second' AND (
            l.max_cost - o.cost < least(r.saved_for, l.max_cost) OR t.tokens < least(r.saved_for, l.release_burst)
        )) IS TRUE, l.max_cost, l.release_burst
    FROM (
        SELECT s.paused_at, n.max_concurrency, n.max_cost, n.release_interval, n.release_burst
        FROM pgqueue_limit AS s
        LEFT JOIN pgqueue_limit AS n
            ON n.id = s.id AND (p_limit.per IS NULL OR p_limit.parent_id IS NOT NULL)
        WHERE s.id = coalesce(p_limit.parent_id, p_limit.id)
    ) AS l
    LEFT JOIN pgqueue_meter AS r ON r.limit_id = p_limit.id
    -- spent_at: when dequeues took tokens beside others last (pgqueue_hold_side).
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(n.cost), 0) AS cost, array_agg(n.ctid) AS spent,
            CASE WHEN max(n.spent_at) IS NOT NULL THEN greatest(max(n.spent_at), r.filled_at) END AS spent_at
        FROM pgqueue_spent AS n
        WHERE n.limit_id = p_limit.id
    ) AS s
    CROSS JOIN LATERAL (
        -- A floor or a bucket from the future means that the clock was set back.
        SELECT CASE WHEN r.place_floor <= p_now THEN r.place_floor ELSE '-infinity' END AS place_floor,
            -- When the bucket was full before those took from it beside each other, is not known: it counts as full once,
            -- so there are never too many tokens.
            CASE WHEN l.release_interval IS NOT NULL THEN least(
                l.release_burst,
                least(CASE WHEN s.spent_at IS NOT NULL THEN l.release_burst END, coalesce(
                    r.tokens + extract(epoch FROM greatest(coalesce(s.spent_at, p_now) - r.filled_at, '0'))
                        / extract(epoch FROM l.release_interval), l.release_burst))
                - s.cost + coalesce(extract(epoch FROM greatest(p_now - s.spent_at, '0'))
                    / extract(epoch FROM l.release_interval), 0))
            END AS tokens
    ) AS t
    CROSS JOIN LATERAL (
        SELECT count(m.id) AS places, coalesce(sum(coalesce(m.cost, 1)) FILTER (WHERE m.id IS NOT NULL), 0) AS cost,
            min(p.placed_at) FILTER (WHERE m.id IS NOT NULL) AS oldest,
            array_agg(p.place) FILTER (WHERE m.id IS NULL) AS stale
        FROM (
            SELECT n.ctid AS place, n.message_id, n.placed_at FROM pgqueue_place AS n
            WHERE n.limit_id = p_limit.id AND n.placed_at >= t.place_floor
        ) AS p
        -- By its key, however small the statistics say that the table is.
        LEFT JOIN LATERAL (
            SELECT n.id, n.cost FROM pgqueue_message AS n
            WHERE n.id = p.message_id AND n.leased_at = p.placed_at OFFSET 0
        ) AS m ON true
    ) AS o
    WHERE (r.place_floor <= p_now) IS NOT FALSE OR clock_timestamp() < r.place_floor;
$$;
