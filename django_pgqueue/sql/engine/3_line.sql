-- Only the holder of the queue's line calls these functions: nobody else writes a lane.

-- Opens a lane, so that its messages may be served; its head stands in the line then. A channel that was empty and was
-- not served in this pass is fresh.
CREATE FUNCTION pgqueue_open_lane(p_channel_id bigint, p_lane bigint)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    l pgqueue_lane;
    h pgqueue_lane;
    v_pass bigint;
BEGIN
    SELECT o.* INTO l FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.lane = p_lane
    ORDER BY o.seq DESC LIMIT 1;
    IF l.parked_for IS NULL THEN
        RETURN;
    END IF;
    SELECT coalesce(pg_sequence_last_value(q.pass), 0) / 1024 INTO v_pass FROM pgqueue_queue AS q
    WHERE q.id = l.queue_id;
    UPDATE pgqueue_lane AS o
    SET parked_for = NULL, meter_id = NULL, wants = NULL, parked_until = NULL, served = 0,
        seq = CASE WHEN l.stands IS NULL THEN nextval('pgqueue_lane_seq') ELSE o.seq END,
        stands = CASE WHEN l.stands IS NOT NULL THEN l.stands WHEN p_lane <> 0 THEN 3
            WHEN l.parked_for = 'empty' AND l.seq <= v_pass THEN 2 ELSE 1 END
    WHERE o.channel_id = p_channel_id AND o.lane = p_lane AND o.seq = l.seq;
    IF p_lane = 0 THEN
        RETURN;
    END IF;
    SELECT o.* INTO h FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.lane = 0
    ORDER BY o.seq DESC LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO pgqueue_lane (seq, channel_id, lane, queue_id, stands, sides, parked_for, parked_until)
        VALUES (nextval('pgqueue_lane_seq'), p_channel_id, 0, l.queue_id, 2, 1, 'empty', 'infinity');
    ELSE
        UPDATE pgqueue_lane AS o
        SET sides = o.sides + 1, seq = CASE WHEN h.stands IS NULL THEN nextval('pgqueue_lane_seq') ELSE o.seq END,
            stands = CASE WHEN h.stands IS NOT NULL THEN h.stands
                WHEN h.parked_for = 'empty' AND l.parked_for = 'empty' AND h.seq <= v_pass THEN 2 ELSE 1 END
        WHERE o.channel_id = p_channel_id AND o.lane = 0 AND o.seq = h.seq;
    END IF;
END;
$$;

-- Parks a lane that is open, with the reason. Of the lanes of the queue that wait for one meter, only the first is
-- looked at again at a time: when the bucket has enough, and for a shared meter within a second in any case.
CREATE FUNCTION pgqueue_park_lane(
    l pgqueue_lane, p_reason text, p_meter_id bigint, p_wants integer, p_until timestamptz, p_current_id bigint
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_meter_id IS NOT NULL THEN
        IF EXISTS (SELECT FROM pgqueue_lane AS w WHERE w.meter_id = p_meter_id AND w.queue_id = l.queue_id) THEN
            p_until := 'infinity';
        ELSE
            p_until := pgqueue_look_again(p_meter_id, p_until);
        END IF;
    END IF;
    UPDATE pgqueue_lane AS o
    SET parked_for = p_reason, meter_id = p_meter_id, wants = p_wants, parked_until = p_until,
        current_id = p_current_id, keyed = o.keyed AND p_reason <> 'empty',
        seq = CASE WHEN o.sides > 0 THEN o.seq ELSE nextval('pgqueue_lane_seq') END,
        stands = CASE WHEN o.sides > 0 THEN o.stands END,
        floor_rank = CASE WHEN p_reason = 'empty' THEN 32767 ELSE o.floor_rank END,
        floor_at = CASE WHEN p_reason = 'empty' THEN 'infinity' ELSE o.floor_at END,
        floor_id = CASE WHEN p_reason = 'empty' THEN 0 ELSE o.floor_id END
    WHERE o.channel_id = l.channel_id AND o.lane = l.lane AND o.seq = l.seq AND o.parked_for IS NULL;
    IF NOT FOUND OR l.lane = 0 THEN
        RETURN;
    END IF;
    UPDATE pgqueue_lane AS o
    SET sides = o.sides - 1, stands = CASE WHEN o.sides > 1 OR o.parked_for IS NULL THEN o.stands END,
        seq = CASE WHEN o.sides > 1 OR o.parked_for IS NULL THEN o.seq ELSE nextval('pgqueue_lane_seq') END
    WHERE o.channel_id = l.channel_id AND o.lane = 0 AND o.seq = (
        SELECT h.seq FROM pgqueue_lane AS h WHERE h.channel_id = l.channel_id AND h.lane = 0
        ORDER BY h.seq DESC LIMIT 1);
    -- A lane beside the head is made again when a message needs it.
    DELETE FROM pgqueue_lane AS o
    WHERE p_reason = 'empty' AND o.channel_id = l.channel_id AND o.lane = l.lane;
END;
$$;

-- Returns when the first lane that waits for a meter is looked at again, even if no note says that there is room.
CREATE FUNCTION pgqueue_look_again(p_meter_id bigint, p_until timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN CASE WHEN (SELECT m.shared FROM pgqueue_meter AS m WHERE m.id = p_meter_id)
        THEN least(p_until, clock_timestamp() + interval '1 second') ELSE coalesce(p_until, 'infinity') END;
END;
$$;

-- Opens the first lane of the queue that waits for a meter, if the meter has room for it; the next one carries the time.
-- Returns whether it has opened one.
CREATE FUNCTION pgqueue_wake(p_queue_id integer, p_meter_id bigint, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    l pgqueue_lane;
    r record;
BEGIN
    SELECT w.* INTO l FROM pgqueue_lane AS w WHERE w.meter_id = p_meter_id AND w.queue_id = p_queue_id
    ORDER BY w.seq LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    r := pgqueue_has_room(p_meter_id, l.wants, p_now);
    IF r.room THEN
        PERFORM pgqueue_open_lane(l.channel_id, l.lane);
    END IF;
    UPDATE pgqueue_lane AS o SET parked_until = pgqueue_look_again(p_meter_id, r.until)
    WHERE o.ctid = (
        SELECT w.ctid FROM pgqueue_lane AS w WHERE w.meter_id = p_meter_id AND w.queue_id = p_queue_id
        ORDER BY w.seq LIMIT 1);
    RETURN r.room;
END;
$$;

-- Folds notes of a queue into its lanes and meters: those that cannot wait, or the lazy ones. A call takes 200 of the
-- oldest, and 50 of the newest when there are more, so that a large INSERT does not keep others waiting.
CREATE FUNCTION pgqueue_fold(
    p_queue_id integer, p_lazy boolean, p_from xid8, p_late xid8[], p_now timestamptz
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    n record;
    l pgqueue_lane;
    v_done tid[] := '{}';
BEGIN
    IF p_late <> '{}' AND NOT p_lazy THEN
        -- Notes of transactions that were open at the tick come above the floor.
        UPDATE pgqueue_note AS o SET xid = pg_current_xact_id(), lazy = false
        WHERE o.ctid = ANY (ARRAY(
            SELECT a.ctid FROM unnest(p_late) AS x (xid) CROSS JOIN unnest(ARRAY[false, true]) AS z (lazy)
            CROSS JOIN LATERAL (
                SELECT i.ctid FROM pgqueue_note AS i
                WHERE i.queue_id = p_queue_id AND i.lazy = z.lazy AND i.xid = x.xid
            ) AS a
            LIMIT 200));
    END IF;
    FOR n IN
        SELECT g.channel_id, g.lane, g.meter_id, g.side, array_agg(g.place) AS places, min(g.rank) AS rank, min(g.at) AS at,
            min(g.id) AS id, array_agg(g.id) AS ids, array_agg(g.ended) AS ended, bool_or(g.keyed) AS keyed,
            coalesce(sum(g.freed), 0)::integer AS freed, coalesce(sum(g.cost), 0)::bigint AS cost,
            coalesce(sum(g.spent), 0)::bigint AS spent
        FROM (
            (SELECT o.ctid AS place, o.* FROM pgqueue_note AS o
            WHERE o.queue_id = p_queue_id AND o.lazy = p_lazy AND o.xid >= p_from ORDER BY o.xid LIMIT 200)
            UNION
            (SELECT o.ctid, o.* FROM pgqueue_note AS o
            WHERE o.queue_id = p_queue_id AND o.lazy = p_lazy AND o.xid >= p_from ORDER BY o.xid DESC LIMIT 50)
        ) AS g
        GROUP BY g.channel_id, g.lane, g.meter_id, g.side
    LOOP
        IF n.meter_id IS NOT NULL THEN
            IF n.freed > 0 OR n.spent <> 0 THEN
                -- The notes of a side that another call charges at this moment stay.
                PERFORM FROM pgqueue_level AS o WHERE o.meter_id = n.meter_id AND o.side = coalesce(n.side, 0)
                ORDER BY o.seq DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
                CONTINUE WHEN NOT FOUND;
                PERFORM pgqueue_charge(
                    ARRAY[n.meter_id * 16 + coalesce(n.side, 0)], -n.freed, -n.cost, n.spent, p_now);
            END IF;
            v_done := v_done || n.places;
            PERFORM pgqueue_wake(p_queue_id, n.meter_id, p_now);
            IF n.freed > 0 THEN
                INSERT INTO pgqueue_note (queue_id, meter_id)
                SELECT q.id, n.meter_id FROM pgqueue_meter AS m JOIN pgqueue_queue AS q ON q.id <> p_queue_id
                WHERE m.id = n.meter_id AND m.shared
                    AND EXISTS (SELECT FROM pgqueue_lane AS w WHERE w.meter_id = n.meter_id AND w.queue_id = q.id);
            END IF;
            CONTINUE;
        END IF;
        v_done := v_done || n.places;
        SELECT o.* INTO l FROM pgqueue_lane AS o WHERE o.channel_id = n.channel_id AND o.lane = n.lane
        ORDER BY o.seq DESC LIMIT 1;
        IF NOT FOUND THEN
            CONTINUE WHEN n.id IS NULL;
            INSERT INTO pgqueue_lane (seq, channel_id, lane, queue_id, limits, order_key, keyed, parked_for,
                parked_until, floor_rank, floor_at, floor_id)
            SELECT 0, n.channel_id, n.lane, p_queue_id,
                CASE WHEN n.lane > 0 THEN pgqueue_meters_of(m.limits, m.handler) END,
                CASE WHEN n.lane < 0 THEN m.order_key END, coalesce(n.keyed, false), 'empty', 'infinity', n.rank, n.at,
                n.id
            FROM pgqueue_live AS m WHERE m.channel_id = n.channel_id AND m.lane = n.lane AND m.status = 1 LIMIT 1;
            IF FOUND THEN
                PERFORM pgqueue_open_lane(n.channel_id, n.lane);
            END IF;
            CONTINUE;
        END IF;
        IF (n.rank, n.at, n.id) < (l.floor_rank, l.floor_at, l.floor_id) OR n.keyed AND NOT l.keyed
            OR l.current_id = ANY (n.ended) THEN
            UPDATE pgqueue_lane AS o
            SET keyed = o.keyed OR coalesce(n.keyed, false),
                current_id = CASE WHEN o.current_id = ANY (n.ended) THEN NULL ELSE o.current_id END,
                floor_rank = CASE WHEN (n.rank, n.at, n.id) < (o.floor_rank, o.floor_at, o.floor_id) THEN n.rank
                    ELSE o.floor_rank END,
                floor_at = CASE WHEN (n.rank, n.at, n.id) < (o.floor_rank, o.floor_at, o.floor_id) THEN n.at
                    ELSE o.floor_at END,
                floor_id = CASE WHEN (n.rank, n.at, n.id) < (o.floor_rank, o.floor_at, o.floor_id) THEN n.id
                    ELSE o.floor_id END
            WHERE o.channel_id = l.channel_id AND o.lane = l.lane AND o.seq = l.seq;
        END IF;
        IF l.parked_for = 'empty' AND n.id IS NOT NULL OR l.parked_for = 'key'
            OR l.parked_for = 'order' AND l.current_id = ANY (n.ids || n.ended) THEN
            PERFORM pgqueue_open_lane(l.channel_id, l.lane);
        END IF;
    END LOOP;
    DELETE FROM pgqueue_note AS o WHERE o.ctid = ANY (v_done);
END;
$$;

-- Writes the floor of the own lane of a channel: the key of its first ready message, locked by others or not. p_moves: its
-- turn is over, it goes to the tail of the line; else, a fresh one has had p_served messages more of its turn.
CREATE FUNCTION pgqueue_touch_lane(p_channel_id bigint, p_moves boolean, p_served integer)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    l pgqueue_lane;
    n record;
BEGIN
    SELECT o.* INTO l FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.lane = 0
    ORDER BY o.seq DESC LIMIT 1;
    SELECT -m.priority AS rank, m.dequeue_at AS at, m.id INTO n FROM pgqueue_live AS m
    WHERE m.channel_id = p_channel_id AND m.lane = 0 AND m.status = 1
        AND (-m.priority, m.dequeue_at, m.id) >= (l.floor_rank, l.floor_at, l.floor_id)
    ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1;
    UPDATE pgqueue_lane AS o
    SET seq = CASE WHEN p_moves THEN nextval('pgqueue_lane_seq') ELSE o.seq END,
        stands = CASE WHEN o.stands = 2 AND p_moves THEN 1 ELSE o.stands END,
        served = CASE WHEN o.stands = 2 AND NOT p_moves THEN o.served + p_served ELSE 0 END,
        floor_rank = coalesce(n.rank, o.floor_rank), floor_at = coalesce(n.at, o.floor_at),
        floor_id = coalesce(n.id, o.floor_id)
    WHERE o.channel_id = p_channel_id AND o.lane = 0 AND o.seq = l.seq;
END;
$$;
