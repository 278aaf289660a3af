-- Gives the arrivals of transactions that committed late the xid of this one, so that they stand where everybody looks.
-- Caller: pgqueue_take, pgqueue_take_channel, pgqueue_tick. Rolled back, they are late again and the next caller finds them.
-- Returns the least xid that such arrivals have now, null without any: what others hold keeps the old one, and comes before what is new.
-- Locks: arrivals, SKIP LOCKED.
CREATE FUNCTION pgqueue_restamp(p_queue text, p_late_xids xid8[])
RETURNS xid8
LANGUAGE plpgsql
AS $$
DECLARE
    v_xid xid8;
BEGIN
    UPDATE pgqueue_arrival AS a
    SET xid = pg_current_xact_id(), lazy = false
    WHERE a.ctid = ANY (ARRAY(
        SELECT n.ctid
        FROM unnest(p_late_xids) AS x (xid)
        CROSS JOIN unnest(ARRAY[false, true]) AS z (lazy)
        CROSS JOIN LATERAL (
            SELECT late.ctid FROM pgqueue_arrival AS late
            WHERE late.queue = p_queue AND late.lazy = z.lazy AND late.xid = x.xid
            FOR UPDATE SKIP LOCKED
        ) AS n
        LIMIT 200));
    IF FOUND THEN
        v_xid := pg_current_xact_id();
    END IF;
    RETURN least(v_xid, (SELECT min(n.xid) FROM pgqueue_late_news(p_queue, p_late_xids) AS n));
END;
$$;
