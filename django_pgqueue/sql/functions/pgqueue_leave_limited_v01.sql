-- Moves the lanes of limited channels on after their turn: to the tail, or parked until their limits allow more.
-- Caller: what takes messages and holds the lanes. The arrays pair up. p_lanes: where they are stored, which nobody else can change;
--   p_counts: how many of p_got each lane gave; null: not a limited one; p_rooms: places that were free; p_nexts: time of the token bucket;
--   p_lease_floors: see pgqueue_allowance. Returns how many lanes.
-- Parked at 'infinity': at max_concurrency, paused or empty; an arrival brings it back. Locks: none that the caller does not hold.
CREATE FUNCTION pgqueue_leave_limited(
    p_lanes tid[],
    p_now timestamptz,
    p_counts integer[],
    p_got bigint[],
    p_rooms integer[],
    p_nexts timestamptz[],
    p_lease_floors timestamptz[]
)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_moved integer;
BEGIN
    -- In the order of the line, as in pgqueue_take_turns.
    WITH turned AS MATERIALIZED (
        SELECT t.*, CASE WHEN t.rotate THEN nextval('pgqueue_lane_seq') END AS tail
        FROM (
            SELECT u.lane, u.count, u.room, u.lease_floor, c.paused_at, c.changed_at, f.rank, f.dequeue_at, f.id,
                u.count = 0 OR o.served + u.count >= c.weight AS rotate,
                u.next_at + u.count * coalesce(c.release_interval, '0') AS next_at,
                u.next_at + (u.count - c.release_burst + 1) * c.release_interval AS free_at
            FROM unnest(p_lanes, p_counts, p_rooms, p_nexts, p_lease_floors)
                WITH ORDINALITY AS u (lane, count, room, next_at, lease_floor, place)
            -- One lane after the other: a join may begin at the channels and walk all that their lanes have been.
            CROSS JOIN LATERAL (SELECT n.* FROM pgqueue_lane AS n WHERE n.ctid = u.lane LIMIT 1) AS o
            CROSS JOIN LATERAL (SELECT n.* FROM pgqueue_channel AS n WHERE n.id = o.channel_id LIMIT 1) AS c
            LEFT JOIN LATERAL (
                SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
                WHERE m.channel_id = o.channel_id AND m.status = 1
                    AND (-m.priority, m.dequeue_at, m.id) >= (o.floor_rank, o.floor_at, o.floor_id)
                    AND m.id <> ALL (p_got)
                ORDER BY -m.priority, m.dequeue_at, m.id
                LIMIT 1
            ) AS f ON true
            WHERE u.count IS NOT NULL
            ORDER BY u.place
        ) AS t
    )
    UPDATE pgqueue_lane AS l
    SET seq = coalesce(n.tail, l.seq),
        served = CASE WHEN n.tail IS NULL THEN l.served + n.count ELSE 0 END,
        floor_rank = coalesce(n.rank, 32767),
        floor_at = coalesce(n.dequeue_at, 'infinity'),
        floor_id = coalesce(n.id, 0),
        lease_floor = n.lease_floor,
        next_at = n.next_at,
        parked_until = CASE
            WHEN n.id IS NULL OR n.paused_at IS NOT NULL THEN 'infinity'
            -- A settlement that did not see a new limit does not tell that it frees a place: look again by ourselves for a while.
            WHEN n.room <= n.count AND n.changed_at > p_now - interval '10 minutes' THEN p_now + interval '5 seconds'
            WHEN n.room <= n.count THEN 'infinity'
            WHEN n.free_at > p_now THEN n.free_at
        END
    FROM turned AS n
    WHERE l.ctid = n.lane;
    GET DIAGNOSTICS v_moved = ROW_COUNT;
    RETURN v_moved;
END;
$$;
