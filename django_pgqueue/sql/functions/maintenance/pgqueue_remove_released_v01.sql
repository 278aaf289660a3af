-- Removes released channels that have drained, as soon as no open transaction can still bring a message.
-- Returns the number of channels.
-- Locks: the rows of the channels, SKIP LOCKED.
-- A transaction that could not see the release may have enqueued. Its trigger looked at the channel when it had an xid,
-- so the xid is smaller than that of any call of this function that sees the release committed. A call notes its own
-- xid with the channel; it, or a later one, removes the channel when all transactions before that xid have ended. (A
-- snapshot does not list the youngest that run, so "none is running" cannot be asked for.) A transaction that sees the
-- past (REPEATABLE READ) fails in pgqueue_message_arrived.
CREATE FUNCTION pgqueue_remove_released()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_ids bigint[];
    v_removed integer;
BEGIN
    -- The release itself is committed: its xid is older than all that are open.
    UPDATE pgqueue_channel AS c
    SET released_xid = pg_current_xact_id()
    WHERE c.id = ANY (ARRAY(
        SELECT r.id FROM pgqueue_channel AS r
        WHERE r.released_at IS NOT NULL AND r.released_xid IS NULL
            AND r.xmin::text::bigint < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296)
        FOR UPDATE SKIP LOCKED));
    v_ids := ARRAY(
        SELECT c.id FROM pgqueue_channel AS c
        WHERE c.released_at IS NOT NULL AND c.released_xid <= pg_snapshot_xmin(pg_current_snapshot())
        FOR UPDATE SKIP LOCKED);
    IF v_ids = '{}' THEN
        RETURN 0;
    END IF;
    -- This statement has a later snapshot: it sees the rows of transactions that were open before and are committed
    -- now.
    DELETE FROM pgqueue_channel AS c
    WHERE c.id = ANY (v_ids) AND NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.channel_id = c.id);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    DELETE FROM pgqueue_lane AS l
    WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgqueue_lane AS o
        WHERE o.channel_id = ANY (v_ids) AND NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = o.channel_id)
        FOR UPDATE SKIP LOCKED));
    RETURN v_removed;
END;
$$;
