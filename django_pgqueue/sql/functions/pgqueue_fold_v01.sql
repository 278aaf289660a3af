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
    v_held bigint[] := '{}';
    v_places tid[];
    v_seen integer;
    v_channels integer := 0;
BEGIN
    SELECT n.arrival_xid, n.late_xids, n.parked_from, coalesce(n.head, 9223372036854775807) AS head INTO v_line
    FROM pgqueue_line(p_queue, p_now) AS n;
    IF v_line.late_xids <> '{}' AND NOT p_lazy THEN
        PERFORM pgqueue_refresh_late_arrivals(p_queue, v_line.late_xids);
    END IF;
    IF p_lazy THEN
        UPDATE pgqueue_lane AS l
        SET parked_until = NULL, fresh = l.seq < v_line.head, seq = nextval('pgqueue_lane_seq')
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
            IF v_arrival.stands OR pgqueue_fold_lane(v_arrival.channel_id, v_arrival.again, v_arrival.floor_rank,
                v_arrival.floor_at, v_arrival.floor_id, v_arrival.spent, v_line.head) THEN
                v_places := v_places || v_arrival.places;
            ELSE
                v_held := v_held || v_arrival.channel_id;
            END IF;
        END LOOP;
        EXIT WHEN v_seen = 0;
        DELETE FROM pgqueue_arrival AS a WHERE a.ctid = ANY (v_places);
        EXIT WHEN v_seen < 1000 OR v_channels >= 200;
    END LOOP;
    RETURN v_held <> '{}';
END;
$$;
