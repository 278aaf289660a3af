-- Takes the message of an ordered channel whose turn it is: the one that was taken last, if it is ready again after a
-- failure, a deferral, or a wait for a shared limit; else the first one that is ready.
-- The caller holds the channel's lane, and pgqueue_allowance has seen that no message is leased, and that the one taken
-- last holds the channel no longer. p_current_id: the message that was taken last; p_rank, p_at, p_key: no ready
-- message sorts before this key, except those whose arrivals are not folded yet; p_among: take it only if it is one of
-- these, because a later one must not overtake it.
-- Another fold may hold the arrival of an earlier message, or it can wait: so this call reads the channel's arrivals.
-- Returns ids: the message, locked; none, if another transaction holds it, if it is not one of p_among, if it is held,
--   or if a dead letter has to pause the channel first. current_id: the message that holds the channel from now on.
-- Locks: the message, SKIP LOCKED: a message that another transaction holds is not passed over; and as
--   pgqueue_pause_at_dead. The callers pin the plans.
CREATE FUNCTION pgqueue_take_ordered(
    p_queue text,
    p_channel_id bigint,
    p_current_id bigint,
    p_rank smallint,
    p_at timestamptz,
    p_key bigint,
    p_now timestamptz,
    p_among bigint[],
    OUT ids bigint[],
    OUT current_id bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_first record;
    v_arrived record;
BEGIN
    ids := '{}';
    current_id := p_current_id;
    -- The cast is as in pgqueue_announce.
    SELECT m.id, m.held_until INTO v_first FROM pgqueue_message AS m
    WHERE m.id = p_current_id AND m.channel_id = p_channel_id AND m.status::integer = 1;
    IF NOT FOUND THEN
        -- The settlement could not pause the channel while another transaction edited it.
        IF pgqueue_pause_at_dead(ARRAY[p_channel_id], ARRAY[p_current_id]) THEN
            RETURN;
        END IF;
        SELECT a.floor_rank, a.floor_at, a.floor_id INTO v_arrived
        FROM pgqueue_line(p_queue, p_now) AS n
        CROSS JOIN unnest(ARRAY[false, true]) AS z (lazy)
        CROSS JOIN LATERAL (
            SELECT r.* FROM pgqueue_arrival AS r
            WHERE r.queue = p_queue AND r.lazy = z.lazy AND r.xid >= n.arrival_xid AND r.channel_id = p_channel_id
            UNION ALL
            SELECT r.* FROM unnest(n.late_xids) AS x (xid) JOIN pgqueue_arrival AS r
                ON r.queue = p_queue AND r.lazy = z.lazy AND r.xid = x.xid AND r.channel_id = p_channel_id
        ) AS a
        WHERE (a.floor_rank, a.floor_at, a.floor_id) < (p_rank, p_at, p_key)
        ORDER BY a.floor_rank, a.floor_at, a.floor_id LIMIT 1;
        IF FOUND THEN
            p_rank := v_arrived.floor_rank;
            p_at := v_arrived.floor_at;
            p_key := v_arrived.floor_id;
        END IF;
        SELECT m.id, m.held_until INTO v_first FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (p_rank, p_at, p_key)
        ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1;
    END IF;
    IF v_first.held_until > p_now THEN
        -- It was leased before the channel was ordered, and failed since: the next turn waits for it.
        current_id := v_first.id;
        RETURN;
    END IF;
    ids := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.id = v_first.id AND m.status::integer = 1 AND (p_among IS NULL OR m.id = ANY (p_among))
        FOR UPDATE SKIP LOCKED);
    current_id := coalesce(ids[1], p_current_id);
END;
$$;
