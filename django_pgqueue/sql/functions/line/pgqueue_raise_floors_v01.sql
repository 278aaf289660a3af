-- Writes the next row of pgqueue_floor, and one for each queue that is behind. A floor may only pass keys that no
-- transaction can still show below it:
--   arrivals  an unseen one has the xid of a running transaction; those older than the last tick are kept by name
--   leases    and schedules: an unseen entry has the xid of a transaction that was running at the last watch
--   lanes     an unseen lane took its seq in a transaction that has written to the table since before the last tick
-- The bound of a tick is its own new xid, assigned after it has read the sequence: a transaction that took a seq before
-- has a smaller one. (pg_snapshot_xmax would not do: the youngest running transactions lie beyond it.)
-- A queue is behind while its first arrival or lane is older than the tick before the last ten: nobody serves it, or it
-- is long. With a floor of its own it does not hold the others back. Its bounds are those that it had at the last tick.
-- While the database is idle, a row is written each 5 seconds: no transaction has an xid, and none had one since the
-- last row, so nothing has changed but the clock.
-- The caller is in a transaction without an xid.
-- Locks: none; it reads pg_locks.
CREATE FUNCTION pgqueue_raise_floors()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_old pgqueue_floor;
    v_running xid8[];
    v_arrival xid8;
    v_late xid8[];
    v_next pgqueue_floor;
    v_most pgqueue_floor;
    v_ago pgqueue_floor;
    v_own pgqueue_floor;
    v_floor pgqueue_floor;
    v_held boolean;
    v_queue text;
BEGIN
    SELECT f.* INTO v_old FROM pgqueue_floor_of('') AS f;
    -- The last tick had the newest xid, and has passed all arrivals before it.
    IF v_old.arrival_xid::text::bigint + 1 = v_old.next_xid::text::bigint
        AND pg_snapshot_xmin(pg_current_snapshot())::text::bigint = v_old.next_xid::text::bigint + 1
        AND pg_snapshot_xmax(pg_current_snapshot())::text::bigint = v_old.next_xid::text::bigint + 1
        AND v_old.ticked_at BETWEEN v_now - interval '5 seconds' AND v_now
    THEN
        RETURN;
    END IF;
    SELECT f.* INTO v_ago FROM pgqueue_floor AS f WHERE f.id = v_old.id - 10 AND f.queue = '';
    v_next := v_old;
    v_next.id := v_old.id + 1;
    v_next.ticked_at := v_now;
    SELECT last_value INTO v_next.next_lane_seq FROM pgqueue_lane_seq;
    v_next.next_xid := pg_current_xact_id();
    -- A floor from the future: the database was restored from a dump of an older cluster. Begin anew.
    IF v_old.next_xid > v_next.next_xid OR v_old.arrival_xid > v_next.next_xid THEN
        v_old.arrival_xid := '0';
        v_old.next_xid := '0';
        v_old.late_xids := '{}';
        v_old.watched_xid := '0';
    END IF;
    -- The clock was set back: a floor of the future would hide the lanes that are parked from now on.
    IF v_old.ticked_at > v_now OR v_old.parked_from > v_now THEN
        v_old.ticked_at := v_now;
        v_old.parked_from := '-infinity';
        v_next.parked_from := '-infinity';
        v_next.expiry_from := '-infinity';
        v_next.due_from := '-infinity';
        v_next.watched_at := '-infinity';
    END IF;
    v_running := ARRAY(SELECT x FROM pg_snapshot_xip(pg_current_snapshot()) AS x WHERE x < v_old.next_xid);
    -- One of these has written, or may still write, to pgqueue_lane. It is asked only when there are any.
    v_held := v_running <> '{}' AND EXISTS (
        SELECT FROM pg_locks AS held
        JOIN pg_locks AS writer ON writer.virtualtransaction = held.virtualtransaction
        WHERE held.locktype = 'relation' AND held.relation = 'pgqueue_lane'::regclass
            AND held.mode = 'RowExclusiveLock' AND writer.locktype = 'transactionid' AND writer.mode = 'ExclusiveLock'
            AND writer.transactionid::text::bigint = ANY (
                ARRAY(SELECT x::text::bigint % 4294967296 FROM unnest(v_running) AS x)));
    IF pg_snapshot_xmin(pg_current_snapshot()) > v_old.watched_xid THEN
        -- All transactions that began before the watch have ended: their rows are visible to these two statements.
        v_next.expiry_from := coalesce((
            SELECT m.lease_expires_at FROM pgqueue_message AS m
            WHERE m.lease_expires_at >= v_next.expiry_from AND m.lease_expires_at < v_next.watched_at
            ORDER BY m.lease_expires_at LIMIT 1), v_next.watched_at);
        v_next.due_from := coalesce((
            SELECT m.dequeue_at FROM pgqueue_message AS m
            WHERE m.status = 3 AND m.waits_for IS NULL AND m.dequeue_at >= v_next.due_from
                AND m.dequeue_at < v_next.watched_at
            ORDER BY m.dequeue_at LIMIT 1), v_next.watched_at);
        v_next.watched_at := v_now;
        v_next.watched_xid := v_next.next_xid;
    END IF;
    -- The upper bounds. That of lanes may fall: a sequence may go back (see pgqueue_floor), and new lanes stand below
    -- the old floor then. That of parked lanes is ten seconds lower: a process may have been stopped between its reading
    -- of the clock and its first lock.
    v_next.arrival_xid := v_old.next_xid;
    v_next.late_xids := v_running;
    IF NOT v_held THEN
        v_next.lane_seq := v_old.next_lane_seq;
        v_next.fresh_seq := v_old.next_lane_seq;
        v_next.parked_from := greatest(v_old.ticked_at - interval '10 seconds', v_old.parked_from);
    END IF;
    v_most := v_next;
    SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c;
    WHILE v_queue IS NOT NULL LOOP
        SELECT f.* INTO v_own FROM pgqueue_floor_of(v_queue) AS f;
        -- The floor of all queues may have begun anew.
        v_own.arrival_xid := least(v_own.arrival_xid, v_old.arrival_xid);
        v_own.lane_seq := least(v_own.lane_seq, v_old.lane_seq);
        v_own.fresh_seq := least(v_own.fresh_seq, v_old.fresh_seq);
        v_own.parked_from := least(v_own.parked_from, v_old.parked_from);
        v_floor := v_most;
        v_floor.queue := v_queue;
        IF v_held THEN
            v_floor.lane_seq := v_own.lane_seq;
            v_floor.fresh_seq := v_own.fresh_seq;
            v_floor.parked_from := v_own.parked_from;
        END IF;
        -- Each floor is looked for between the old one and its upper bound: the entries before are dead, and those
        -- behind do not matter.
        FOREACH v_arrival IN ARRAY ARRAY[
            (SELECT a.xid FROM pgqueue_arrival AS a
            WHERE a.queue = v_queue AND NOT a.lazy AND a.xid >= v_own.arrival_xid AND a.xid < v_old.next_xid
            ORDER BY a.xid LIMIT 1),
            (SELECT a.xid FROM pgqueue_arrival AS a
            WHERE a.queue = v_queue AND a.lazy AND a.xid >= v_own.arrival_xid AND a.xid < v_old.next_xid
            ORDER BY a.xid LIMIT 1)]
        LOOP
            v_floor.arrival_xid := least(v_floor.arrival_xid, v_arrival);
        END LOOP;
        v_floor.lane_seq := least(v_floor.lane_seq, (
            SELECT l.seq FROM pgqueue_lane AS l
            WHERE l.queue = v_queue AND l.parked_until IS NULL AND NOT l.fresh
                AND l.seq >= v_own.lane_seq AND l.seq < v_floor.lane_seq
            ORDER BY l.seq LIMIT 1));
        v_floor.fresh_seq := least(v_floor.fresh_seq, (
            SELECT l.seq FROM pgqueue_lane AS l
            WHERE l.queue = v_queue AND l.parked_until IS NULL AND l.fresh
                AND l.seq >= v_own.fresh_seq AND l.seq < v_floor.fresh_seq
            ORDER BY l.seq LIMIT 1));
        v_floor.parked_from := least(v_floor.parked_from, (
            SELECT l.parked_until FROM pgqueue_lane AS l
            WHERE l.queue = v_queue AND l.parked_until >= v_own.parked_from AND l.parked_until < v_floor.parked_from
            ORDER BY l.parked_until LIMIT 1));
        v_late := v_running || ARRAY(SELECT n.xid FROM pgqueue_late_arrivals(v_queue, v_own.late_xids) AS n);
        IF v_floor.arrival_xid < v_ago.next_xid OR (v_own.queue <> '' OR NOT v_held)
            AND (least(v_floor.lane_seq, v_floor.fresh_seq) < v_ago.next_lane_seq
                OR v_floor.parked_from < v_ago.ticked_at - interval '10 seconds')
        THEN
            v_floor.late_xids := ARRAY(SELECT DISTINCT x FROM unnest(v_late) AS x WHERE x < v_floor.arrival_xid);
            INSERT INTO pgqueue_floor VALUES (v_floor.*);
        ELSE
            v_next.arrival_xid := least(v_next.arrival_xid, v_floor.arrival_xid);
            v_next.lane_seq := least(v_next.lane_seq, v_floor.lane_seq);
            v_next.fresh_seq := least(v_next.fresh_seq, v_floor.fresh_seq);
            v_next.parked_from := least(v_next.parked_from, v_floor.parked_from);
            v_next.late_xids := v_next.late_xids || v_late;
        END IF;
        SELECT min(c.queue) INTO v_queue FROM pgqueue_channel AS c WHERE c.queue > v_queue;
    END LOOP;
    v_next.late_xids := ARRAY(SELECT DISTINCT x FROM unnest(v_next.late_xids) AS x WHERE x < v_next.arrival_xid);
    INSERT INTO pgqueue_floor VALUES (v_next.*);
    -- The lower bound keeps the scan away from rows that were deleted before.
    DELETE FROM pgqueue_floor AS f WHERE f.id BETWEEN v_old.id - 50 AND v_old.id - 10;
END;
$$;
