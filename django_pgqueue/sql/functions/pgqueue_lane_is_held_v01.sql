-- Returns whether one of these running transactions has written, or may still write, to pgqueue_lane.
-- Locks: none; it reads pg_locks, and only when there are old transactions at all.
CREATE FUNCTION pgqueue_lane_is_held(p_xids xid8[])
RETURNS boolean
LANGUAGE sql
STABLE
AS $$
SELECT p_xids <> '{}' AND EXISTS (
    SELECT FROM pg_locks AS held
    JOIN pg_locks AS writer ON writer.virtualtransaction = held.virtualtransaction
    WHERE held.locktype = 'relation' AND held.relation = 'pgqueue_lane'::regclass AND held.mode = 'RowExclusiveLock'
        AND writer.locktype = 'transactionid' AND writer.mode = 'ExclusiveLock'
        AND writer.transactionid::text::bigint = ANY (
            ARRAY(SELECT x::text::bigint % 4294967296 FROM unnest(p_xids) AS x)));
$$;
