-- Looks again at the order keys that have a note, because another transaction held their next message when the one
-- before it was settled, and makes that message ready if it waits. It takes 100 notes at most.
-- p_queue: notes of this queue only, because the transaction of a dequeue may stay open. A message that is still held
-- gets a new note. The note of a key that another transaction holds stays: that may be a settlement that looked for the
-- next message before the note was left, and does not look again.
-- Returns the number of messages that were made ready.
-- Locks: notes, then as pgqueue_release_keys, all SKIP LOCKED.
CREATE FUNCTION pgqueue_release_noted(p_queue text)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_keys pgqueue_order_note[];
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_order_note) THEN
        RETURN 0;
    END IF;
    -- Deletes the notes. It looks at the locks after it has seen the notes.
    WITH gone AS (
        DELETE FROM pgqueue_order_note AS n
        WHERE n.ctid = ANY (ARRAY(
            SELECT o.ctid FROM pgqueue_order_note AS o
            WHERE (p_queue IS NULL OR p_queue = (SELECT c.queue FROM pgqueue_channel AS c WHERE c.id = o.channel_id))
                AND hashtextextended(o.order_key, o.channel_id) <> ALL (ARRAY(
                    SELECT l.classid::bigint << 32 | l.objid::bigint FROM pg_locks AS l
                    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
                        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())))
            LIMIT 100
            FOR UPDATE SKIP LOCKED))
        RETURNING n.channel_id, n.order_key
    )
    SELECT array_agg(ROW(g.channel_id, g.order_key)::pgqueue_order_note) INTO v_keys FROM gone AS g;
    RETURN coalesce(pgqueue_release_keys(v_keys, false), 0);
END;
$$;
