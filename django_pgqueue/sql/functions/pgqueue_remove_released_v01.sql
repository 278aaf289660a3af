-- Removes released channels that have drained, as soon as no open transaction can still bring a message.
-- Caller: pgqueue_sweep and pgqueue_prune; an operator after a release. Returns how many.
-- Locks: the rows of the channels, SKIP LOCKED.
-- An open transaction may have enqueued before it could see the release. Such a transaction has an xid: without any other open one, or an
-- hour after the release, there is none. One that sees the past (REPEATABLE READ) fails in pgqueue_message_arrived.
CREATE FUNCTION pgqueue_remove_released()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_ids bigint[];
    v_removed integer;
BEGIN
    -- The release itself is committed: its xid is older than all that are open, this one's too.
    v_ids := ARRAY(
        SELECT c.id FROM pgqueue_channel AS c
        WHERE c.released_at IS NOT NULL
            AND c.xmin::text::bigint < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296)
            AND (
                c.released_at < clock_timestamp() - interval '1 hour'
                OR NOT EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot())))
        FOR UPDATE SKIP LOCKED);
    IF v_ids = '{}' THEN
        RETURN 0;
    END IF;
    -- In a later snapshot: what was open before and is committed now is seen.
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
