-- Folds arrivals into lanes: lowers the floor of a channel's lane, and brings a parked lane back into the line.
-- p_lazy: the arrivals that can wait, and the lanes whose time has come at p_now; else the arrivals that cannot wait,
-- and those of transactions that committed late.
-- Returns true when it had to leave a lane to another transaction. A call folds up to 10,000 arrivals, and stops after
--   the thousand in which it passes 200 channels.
-- Locks: arrivals and lanes, SKIP LOCKED; a lane that does not exist yet by pg_try_advisory_xact_lock. It never waits.
-- No wake-up is missed: an arrival is deleted only under the lock of its lane, or when it is committed and changes
-- nothing there, and no transaction has locked the lane since its last turn; and a message that becomes visible later
-- has an arrival of its own.
CREATE FUNCTION pgqueue_fold(p_queue text, p_lazy boolean, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_line record;
    v_arrival record;
    v_lane record;
    v_lower boolean;
    v_back boolean;
    v_held bigint[] := '{}';
    v_places tid[];
    v_seen integer;
    v_channels integer := 0;
BEGIN
    SELECT n.arrival_xid, n.late_xids, n.parked_from, coalesce(n.head, 9223372036854775807) AS head INTO v_line
    FROM pgqueue_line(p_queue, p_now) AS n;
    IF v_line.late_xids <> '{}' AND NOT p_lazy THEN
        -- They get the xid of this transaction, so that every dequeue finds them; after a rollback they are late again.
        UPDATE pgqueue_arrival AS a SET xid = pg_current_xact_id(), lazy = false
        WHERE a.ctid = ANY (ARRAY(
            SELECT n.ctid FROM unnest(v_line.late_xids) AS x (xid) CROSS JOIN unnest(ARRAY[false, true]) AS z (lazy)
            CROSS JOIN LATERAL (
                SELECT late.ctid FROM pgqueue_arrival AS late
                WHERE late.queue = p_queue AND late.lazy = z.lazy AND late.xid = x.xid FOR UPDATE SKIP LOCKED
            ) AS n
            LIMIT 200));
    END IF;
    IF p_lazy THEN
        UPDATE pgqueue_lane AS l
        SET parked_until = NULL, fresh = l.seq < v_line.head, seq = nextval('pgqueue_lane_seq'),
            -- At the tail it must not look like the last lane of an older round.
            round = CASE WHEN l.seq < v_line.head THEN l.round
                ELSE (SELECT r.round FROM pgqueue_round(l.queue, v_line.head, true, l.round, 0, 1) AS r) END
        WHERE l.ctid = ANY (ARRAY(
            SELECT p.ctid FROM pgqueue_lane AS p
            WHERE p.queue = p_queue AND p.parked_until >= v_line.parked_from AND p.parked_until <= p_now
            ORDER BY p.parked_until LIMIT 1000
            FOR UPDATE SKIP LOCKED));
    END IF;
    FOR v_round IN 1..10 LOOP
        v_seen := 0;
        v_places := '{}';
        FOR v_arrival IN
            -- The first of a channel has its lowest key; without one, it only asks to look at the channel again.
            SELECT n.channel_id, array_agg(n.place) AS places, bool_or(n.floor_id IS NULL) AS again,
                (array_agg(n.floor_rank))[1] AS floor_rank, (array_agg(n.floor_at))[1] AS floor_at,
                (array_agg(n.floor_id))[1] AS floor_id, sum(n.spent)::bigint AS spent,
                -- Nothing is to be done for a lane that stands in line at or before the key, if no transaction has
                -- locked it since its last turn: the next one to lock it looks with a newer snapshot, which has these
                -- messages and settlements. The turn that wrote the row had locked it before, hence the xmin. What this
                -- transaction has brought itself, others cannot see before it commits.
                p_lazy AND sum(n.spent) IS NULL AND bool_or(n.own) IS NOT TRUE AND (
                    SELECT l.parked_until IS NULL AND l.xmax IN ('0', l.xmin)
                        AND (l.floor_rank, l.floor_at, l.floor_id) <= ((array_agg(n.floor_rank))[1],
                            (array_agg(n.floor_at))[1], (array_agg(n.floor_id))[1]) IS NOT FALSE
                    FROM pgqueue_lane AS l WHERE l.channel_id = n.channel_id ORDER BY l.seq DESC LIMIT 1) AS stands
            FROM (
                SELECT a.* FROM (
                    SELECT a.ctid AS place, a.channel_id, a.floor_rank, a.floor_at, a.floor_id, a.spent,
                        a.xid = pg_current_xact_id_if_assigned() AS own
                    FROM pgqueue_arrival AS a
                    WHERE a.queue = p_queue AND a.lazy = p_lazy AND a.xid >= v_line.arrival_xid
                        AND a.channel_id <> ALL (v_held)
                    ORDER BY a.xid LIMIT 1000
                    FOR UPDATE SKIP LOCKED
                ) AS a
                ORDER BY a.channel_id, a.floor_rank, a.floor_at, a.floor_id
            ) AS n
            GROUP BY n.channel_id
        LOOP
            v_seen := v_seen + cardinality(v_arrival.places);
            v_channels := v_channels + 1;
            IF v_arrival.stands THEN
                v_places := v_places || v_arrival.places;
                CONTINUE;
            END IF;
            v_lane := pgqueue_lock_lane(v_arrival.channel_id);
            -- Without a lane and a channel, the channel has been removed.
            IF v_lane.place IS NULL
                AND EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = v_arrival.channel_id) THEN
                v_held := v_held || v_arrival.channel_id;
                CONTINUE;
            END IF;
            v_places := v_places || v_arrival.places;
            IF v_arrival.spent <> 0 AND v_lane.place IS NOT NULL THEN
                v_lane.place := pgqueue_charge_lane(v_lane.place, v_arrival.spent);
            END IF;
            v_lower := (v_arrival.floor_rank, v_arrival.floor_at, v_arrival.floor_id)
                < (v_lane.floor_rank, v_lane.floor_at, v_lane.floor_id);
            -- A lane at its limit stays parked when more messages come, unless it waits for the tokens of one that is
            -- not the first any more; an empty one, with an infinite floor, stays when there are none.
            v_back := v_lane.parked_until IS NOT NULL AND CASE WHEN v_lane.floor_at = 'infinity' THEN v_lower
                ELSE v_arrival.again OR v_lower AND v_lane.parked_until < 'infinity' END;
            IF v_lower OR v_back THEN
                UPDATE pgqueue_lane AS l
                SET floor_rank = CASE WHEN v_lower THEN v_arrival.floor_rank ELSE l.floor_rank END,
                    floor_at = CASE WHEN v_lower THEN v_arrival.floor_at ELSE l.floor_at END,
                    floor_id = CASE WHEN v_lower THEN v_arrival.floor_id ELSE l.floor_id END,
                    parked_until = CASE WHEN NOT v_back THEN l.parked_until END,
                    -- Fresh, if the head of the line has passed the place that it drew at its last turn (FQ-CoDel, RFC
                    -- 8290, section 4).
                    fresh = CASE WHEN v_back THEN l.seq < v_line.head ELSE l.fresh END,
                    seq = CASE WHEN v_back THEN nextval('pgqueue_lane_seq') ELSE l.seq END,
                    round = CASE WHEN v_back AND l.seq >= v_line.head THEN (
                        SELECT r.round FROM pgqueue_round(l.queue, v_line.head, true, l.round, 0, 1) AS r)
                        ELSE l.round END
                WHERE l.ctid = v_lane.place;
            END IF;
        END LOOP;
        EXIT WHEN v_seen = 0;
        DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (v_places);
        EXIT WHEN v_seen < 1000 OR v_channels >= 200;
    END LOOP;
    RETURN v_held <> '{}';
END;
$$;
