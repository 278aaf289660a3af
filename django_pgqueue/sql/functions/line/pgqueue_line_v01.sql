-- Returns where the line of a queue begins (lower bounds, pgqueue_floor_of) and what stands there.
-- A floor from the future comes from a dump that was restored in a younger cluster: it bounds nothing. Messages that
-- this transaction has enqueued itself may stand below the floor, when it is old.
-- The function is STABLE, so that it becomes a part of the statement, which pays for each mention of a column: name
-- each one once.
-- Returns head, fresh_head: the places of the first lane and of the first fresh one, NULL without any; urgent: arrivals
--   that cannot wait; lazy: arrivals that can; due: lanes whose time has come at p_now; expired, scheduled: leases that
--   are over, and scheduled messages that are due, of any queue; guarded: the settings of the queue must be looked at
--   (pgqueue_is_guarded); limits: there are shared limits; waiting: messages wait for one, of any queue; noted: order
--   keys have to be looked at again, of any queue (pgqueue_release_noted).
-- Locks: none.
-- Each look has the order of its index and a LIMIT: an EXISTS could use another index, which looks as cheap while it is
-- small.
CREATE FUNCTION pgqueue_line(p_queue text, p_now timestamptz)
RETURNS TABLE (
    arrival_xid xid8, late_xids xid8[], lane_seq bigint, fresh_seq bigint, parked_from timestamptz,
    expiry_from timestamptz, due_from timestamptz,
    head bigint, fresh_head bigint, urgent boolean, lazy boolean, due boolean, expired boolean, scheduled boolean,
    guarded boolean, limits boolean, waiting boolean, noted boolean
)
LANGUAGE sql
STABLE
AS $$
SELECT f.arrival_xid, f.late_xids, f.lane_seq, f.fresh_seq, f.parked_from, f.expiry_from, f.due_from,
    (
        SELECT l.seq FROM pgqueue_lane AS l
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= f.lane_seq
        ORDER BY l.seq LIMIT 1
    ),
    (
        SELECT l.seq FROM pgqueue_lane AS l
        WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= f.fresh_seq ORDER BY l.seq LIMIT 1
    ),
    (
        SELECT a.xid FROM pgqueue_arrival AS a
        WHERE a.queue = p_queue AND NOT a.lazy AND a.xid >= f.arrival_xid ORDER BY a.xid LIMIT 1
    ) IS NOT NULL OR f.late_xids <> '{}' AND EXISTS (SELECT FROM pgqueue_late_arrivals(p_queue, f.late_xids)),
    (
        SELECT a.xid FROM pgqueue_arrival AS a
        WHERE a.queue = p_queue AND a.lazy AND a.xid >= f.arrival_xid ORDER BY a.xid LIMIT 1
    ) IS NOT NULL,
    (
        SELECT l.parked_until FROM pgqueue_lane AS l
        WHERE l.queue = p_queue AND l.parked_until >= f.parked_from AND l.parked_until <= p_now
        ORDER BY l.parked_until LIMIT 1
    ) IS NOT NULL,
    (
        SELECT m.lease_expires_at FROM pgqueue_message AS m
        WHERE m.lease_expires_at >= f.expiry_from AND m.lease_expires_at <= p_now ORDER BY m.lease_expires_at LIMIT 1
    ) IS NOT NULL,
    (
        SELECT m.dequeue_at FROM pgqueue_message AS m
        WHERE m.status = 3 AND m.waits_for IS NULL AND m.dequeue_at >= f.due_from AND m.dequeue_at <= p_now
        ORDER BY m.dequeue_at LIMIT 1
    ) IS NOT NULL,
    EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = p_queue AND pgqueue_is_guarded(q)),
    EXISTS (SELECT FROM pgqueue_limit),
    (
        SELECT m.waits_for FROM pgqueue_message AS m
        WHERE m.waits_for >= 0 ORDER BY m.waits_for LIMIT 1
    ) IS NOT NULL,
    EXISTS (SELECT FROM pgqueue_order_note)
FROM (
    SELECT CASE
            WHEN o.arrival_xid <= pg_snapshot_xmax(pg_current_snapshot())
                THEN least(o.arrival_xid, pg_current_xact_id_if_assigned())
            ELSE '0'
        END AS arrival_xid,
        o.late_xids, o.lane_seq, o.fresh_seq, o.parked_from,
        -- A floor from the future means that the clock was set back.
        CASE WHEN o.watched_at <= p_now THEN o.expiry_from ELSE '-infinity' END AS expiry_from,
        CASE WHEN o.watched_at <= p_now THEN o.due_from ELSE '-infinity' END AS due_from
    -- As pgqueue_floor_of, which would cost each dequeue five microseconds.
    FROM pgqueue_floor AS o WHERE o.queue = '' OR o.queue = p_queue ORDER BY o.id DESC, o.queue DESC LIMIT 1
) AS f;
$$;
