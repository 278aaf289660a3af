-- Returns the transactions that committed late and have left arrivals below the floor. p_late_xids: the list that
-- pgqueue_floor keeps by name.
-- The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_late_arrivals(p_queue text, p_late_xids xid8[])
RETURNS TABLE (xid xid8)
LANGUAGE sql
STABLE
AS $$
SELECT x.xid
FROM unnest(p_late_xids) AS x (xid)
CROSS JOIN unnest(ARRAY[false, true]) AS z (lazy)
CROSS JOIN LATERAL (
    SELECT FROM pgqueue_arrival AS a WHERE a.queue = p_queue AND a.lazy = z.lazy AND a.xid = x.xid LIMIT 1
) AS n;
$$;
