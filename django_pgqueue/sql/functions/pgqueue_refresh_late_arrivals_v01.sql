-- Gives arrivals of transactions that committed late the xid of this transaction, so that every dequeue finds them.
-- p_late_xids: the list that pgqueue_floor keeps by name. A call takes 200 arrivals at most; after a rollback they are
-- late again.
-- Locks: arrivals, SKIP LOCKED. The callers pin the plans.
CREATE FUNCTION pgqueue_refresh_late_arrivals(p_queue text, p_late_xids xid8[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE pgqueue_arrival AS a SET xid = pg_current_xact_id(), lazy = false
    WHERE a.ctid = ANY (ARRAY(
        SELECT n.ctid FROM unnest(p_late_xids) AS x (xid) CROSS JOIN unnest(ARRAY[false, true]) AS z (lazy)
        CROSS JOIN LATERAL (
            SELECT late.ctid FROM pgqueue_arrival AS late
            WHERE late.queue = p_queue AND late.lazy = z.lazy AND late.xid = x.xid FOR UPDATE SKIP LOCKED
        ) AS n
        LIMIT 200));
END;
$$;
