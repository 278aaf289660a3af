-- Makes due messages ready, and takes back leases that have expired: of one queue, or of all. Returns whether it did.
CREATE FUNCTION pgqueue_bring_back(p_queue_id integer, p_now timestamptz, p_limit integer DEFAULT 100)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    m pgqueue_live;
    v_done boolean := false;
BEGIN
    FOR m IN
        SELECT o.* FROM pgqueue_live AS o WHERE o.status = 3 AND o.dequeue_at <= p_now
            AND (p_queue_id IS NULL OR p_queue_id = (
                SELECT c.queue_id FROM pgqueue_channel AS c WHERE c.id = o.channel_id))
        ORDER BY o.dequeue_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE pgqueue_live AS o SET status = 1 WHERE o.id = m.id;
        m.status := 1;
        PERFORM pgqueue_leave(m, NULL, false);
        v_done := true;
    END LOOP;
    FOR m IN
        SELECT o.* FROM pgqueue_live AS o WHERE o.lease_expires_at <= p_now
            AND (p_queue_id IS NULL OR p_queue_id = (
                SELECT c.queue_id FROM pgqueue_channel AS c WHERE c.id = o.channel_id))
        ORDER BY o.lease_expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM pgqueue_retry(ARRAY[m.id], ARRAY[m.lease_token]);
        v_done := true;
    END LOOP;
    RETURN v_done;
END;
$$;

-- Does what nobody else may have done: brings messages back, raises floors, folds the notes of queues without consumers.
-- Only in a transaction that has no xid yet: its later notes must not be below the floors.
CREATE FUNCTION pgqueue_tick()
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    q pgqueue_queue;
    f pgqueue_floor;
    v_now timestamptz := clock_timestamp();
    v_next bigint;
    v_bound xid8;
    v_locked boolean;
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL OR NOT pg_try_advisory_xact_lock(7205, 1) THEN
        RETURN;
    END IF;
    SELECT s.last_value INTO v_next FROM pgqueue_lane_seq AS s;
    v_bound := pg_current_xact_id();
    PERFORM pgqueue_bring_back(NULL, v_now, 1000);
    FOR q IN SELECT o.* FROM pgqueue_queue AS o ORDER BY o.id LOOP
        -- With the line, no transaction can still commit a lane that it has placed below the new floor.
        v_locked := pg_try_advisory_xact_lock(7210, q.id);
        f := pgqueue_raise_floor_of(q.id, v_locked, v_bound, v_next, v_now);
        CONTINUE WHEN NOT v_locked;
        PERFORM pgqueue_fold(q.id, z, f.note_xid, f.late_xids, v_now) FROM unnest(ARRAY[false, true]) AS z;
    END LOOP;
END;
$$;

-- Raises the floors of a queue, as far as no open transaction can still commit a note or a lane below them. A transaction
-- that was open at the tick before is listed among the late ones. Returns the floors that count now.
CREATE FUNCTION pgqueue_raise_floor_of(
    p_queue_id integer, p_locked boolean, p_bound xid8, p_next bigint, p_now timestamptz
)
RETURNS pgqueue_floor
LANGUAGE plpgsql
AS $$
DECLARE
    o pgqueue_floor;
    n pgqueue_floor;
    v_running xid8[];
BEGIN
    SELECT f.* INTO o FROM pgqueue_floor AS f WHERE f.queue_id = p_queue_id ORDER BY f.id DESC LIMIT 1;
    -- First those that are still open, then a look for notes in a later snapshot.
    v_running := ARRAY(SELECT x FROM pg_snapshot_xip(pg_current_snapshot()) AS x WHERE x < o.next_xid);
    n := o;
    SELECT greatest(o.note_xid, least(o.next_xid, min(a.xid))) INTO n.note_xid
    FROM unnest(ARRAY[false, true]) AS z (lazy)
    CROSS JOIN LATERAL (
        SELECT i.xid FROM pgqueue_note AS i
        WHERE i.queue_id = p_queue_id AND i.lazy = z.lazy AND i.xid >= o.note_xid ORDER BY i.xid LIMIT 1
    ) AS a;
    v_running := v_running || ARRAY(
        SELECT x FROM unnest(o.late_xids) AS x (xid) WHERE EXISTS (
            SELECT FROM unnest(ARRAY[false, true]) AS z (lazy) JOIN pgqueue_note AS i
                ON i.queue_id = p_queue_id AND i.lazy = z.lazy AND i.xid = x.xid));
    n.late_xids := ARRAY(SELECT DISTINCT x FROM unnest(v_running) AS x WHERE x < n.note_xid ORDER BY x);
    IF p_locked THEN
        SELECT least(o.next_seq, min(s.seq)) INTO n.lane_seq
        FROM unnest(ARRAY[1, 2]) AS z (stands)
        CROSS JOIN LATERAL (
            SELECT l.seq FROM pgqueue_lane AS l
            WHERE l.queue_id = p_queue_id AND l.stands = z.stands AND l.seq >= o.lane_seq ORDER BY l.seq LIMIT 1
        ) AS s;
        n.due_from := greatest(o.due_from, least(o.ticked_at - interval '10 seconds', (
            SELECT w.parked_until FROM pgqueue_lane AS w
            WHERE w.queue_id = p_queue_id AND w.parked_until < 'infinity' AND w.parked_until >= o.due_from
            ORDER BY w.parked_until LIMIT 1)));
    END IF;
    IF p_next = o.next_seq AND (n.note_xid, n.late_xids, n.lane_seq) = (o.note_xid, o.late_xids, o.lane_seq) THEN
        RETURN o;
    END IF;
    n.id := o.id + 1;
    n.ticked_at := p_now;
    n.next_xid := p_bound;
    n.next_seq := p_next;
    INSERT INTO pgqueue_floor SELECT n.*;
    DELETE FROM pgqueue_floor AS f WHERE f.queue_id = p_queue_id AND f.id BETWEEN o.id - 50 AND o.id - 10;
    RETURN n;
END;
$$;

-- Compares the levels of the meters of a queue with the leases that are charged to them, and repairs what a DELETE by
-- hand has left: a lease that counts is a message, or a note that waits to be folded. The caller has the line.
-- Returns how many levels were wrong.
CREATE FUNCTION pgqueue_recount(p_queue_id integer)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_wrong record;
    v_count integer := 0;
BEGIN
    FOR v_wrong IN
        WITH charged AS (
            SELECT n.side, sum(n.running)::integer AS running, sum(n.cost)::bigint AS cost
            FROM (
                SELECT u AS side, 1 AS running, coalesce(m.cost, 1) AS cost
                FROM pgqueue_live AS m CROSS JOIN unnest(m.charged) AS u WHERE m.lease_expires_at IS NOT NULL
                UNION ALL
                SELECT n.meter_id * 16 + n.side, n.freed, n.cost FROM pgqueue_note AS n WHERE n.freed IS NOT NULL
            ) AS n
            GROUP BY n.side
        )
        SELECT m.id, l.side, coalesce(c.running, 0) AS running, coalesce(c.cost, 0) AS cost, l.seq
        FROM pgqueue_meter AS m
        JOIN pgqueue_level AS l ON l.meter_id = m.id
        LEFT JOIN charged AS c ON c.side = m.id * 16 + l.side
        WHERE (l.running, l.cost) <> (coalesce(c.running, 0), coalesce(c.cost, 0))
            AND (m.shared OR m.id IN (
                SELECT q.meter_id FROM pgqueue_queue AS q WHERE q.id = p_queue_id
                UNION ALL
                SELECT h.meter_id FROM pgqueue_channel AS h WHERE h.queue_id = p_queue_id))
    LOOP
        -- A level that has been written since is looked at the next time.
        UPDATE pgqueue_level AS l
        SET running = v_wrong.running, cost = v_wrong.cost, seq = nextval('pgqueue_level_seq')
        WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM pgqueue_level AS o
            WHERE o.meter_id = v_wrong.id AND o.side = v_wrong.side AND o.seq = v_wrong.seq FOR UPDATE SKIP LOCKED));
        CONTINUE WHEN NOT FOUND;
        v_count := v_count + 1;
        INSERT INTO pgqueue_note (queue_id, meter_id) VALUES (p_queue_id, v_wrong.id);
    END LOOP;
    RETURN v_count;
END;
$$;
