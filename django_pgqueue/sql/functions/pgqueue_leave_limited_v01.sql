-- Moves the lane of a limited channel on after its turn: to the tail, or parked until its limits allow more.
-- Caller: pgqueue_take, which holds the lane. p_got: what was taken; p_room: places that were free; p_next_at: time of the token bucket.
-- Parked at 'infinity': at max_concurrency, paused or empty; an arrival brings it back. Locks: none that the caller does not hold.
CREATE FUNCTION pgqueue_leave_limited(
    p_channel_id bigint,
    p_seq bigint,
    p_now timestamptz,
    p_got bigint[],
    p_room integer,
    p_next_at timestamptz,
    p_lease_floor timestamptz
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_count integer := cardinality(p_got);
BEGIN
    UPDATE pgqueue_lane AS l
    SET seq = CASE WHEN r.rotate THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
        served = CASE WHEN r.rotate THEN 0 ELSE l.served + v_count END,
        floor_rank = coalesce(n.rank, 32767),
        floor_at = coalesce(n.dequeue_at, 'infinity'),
        floor_id = coalesce(n.id, 0),
        lease_floor = p_lease_floor,
        next_at = p_next_at + v_count * coalesce(c.release_interval, '0'),
        parked_until = CASE
            WHEN n.id IS NULL OR c.paused_at IS NOT NULL THEN 'infinity'
            -- A settlement that did not see a new limit does not tell that it frees a place: look again by ourselves for a while.
            WHEN p_room <= v_count AND c.changed_at > p_now - interval '10 minutes' THEN p_now + interval '5 seconds'
            WHEN p_room <= v_count THEN 'infinity'
            WHEN p_next_at + (v_count - c.release_burst + 1) * c.release_interval > p_now
                THEN p_next_at + (v_count - c.release_burst + 1) * c.release_interval
        END
    FROM pgqueue_lane AS o
    JOIN pgqueue_channel AS c ON c.id = o.channel_id
    CROSS JOIN LATERAL (SELECT v_count = 0 OR o.served + v_count >= c.weight AS rotate) AS r
    LEFT JOIN LATERAL (
        SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
        WHERE m.channel_id = o.channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (o.floor_rank, o.floor_at, o.floor_id)
            AND m.id <> ALL (p_got)
        ORDER BY -m.priority, m.dequeue_at, m.id
        LIMIT 1
    ) AS n ON true
    WHERE o.channel_id = p_channel_id AND o.seq = p_seq AND l.channel_id = p_channel_id AND l.seq = p_seq;
END;
$$;
