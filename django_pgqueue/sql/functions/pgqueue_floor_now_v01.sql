-- From where to look for arrivals and lanes: the newest row of pgqueue_floor, as this transaction must read it. A floor from the future comes
-- from a dump that was restored in a younger cluster: it holds nothing. And what this transaction has enqueued itself may stand below
-- the floor, when it is old.
-- Caller: what takes messages. STABLE, so that it becomes a part of the statement. Locks: none.
CREATE FUNCTION pgqueue_floor_now()
RETURNS TABLE (arrival_xid xid8, late_xids xid8[], lane_seq bigint, parked_from timestamptz)
LANGUAGE sql
STABLE
AS $$
SELECT CASE
        WHEN o.arrival_xid <= pg_snapshot_xmax(pg_current_snapshot()) THEN least(o.arrival_xid, pg_current_xact_id_if_assigned())
        ELSE '0'
    END,
    o.late_xids, o.lane_seq, o.parked_from
FROM pgqueue_floor AS o ORDER BY o.id DESC LIMIT 1;
$$;
