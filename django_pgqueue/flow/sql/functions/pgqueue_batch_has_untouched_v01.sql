-- Returns whether one of the last members of a batch is outstanding, and no transaction is settling it.
-- It looks at eight, from the newest on, because messages are settled from the oldest on: there are the fewest dead
-- rows. False is always safe: the caller looks again under a lock.
CREATE FUNCTION pgqueue_batch_has_untouched(p_id bigint)
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM (
            SELECT m.xmax AS settled_by FROM pgqueue_batch_member AS m
            WHERE m.batch_id = p_id
            ORDER BY m.member_id DESC
            LIMIT 8
        ) AS m
        WHERE m.settled_by = '0'::xid);
END;
$$;
