-- Notifies on pgqueue_events about events of messages, as far as their queues have events: one JSON object for those of
-- a channel and handler that had the same number of attempts, more of them when the ids do not fit into 8,000 bytes.
-- The caller has changed the messages, and calls this when any queue has events. p_event: created | deferred | retried
-- | completed | dead_lettered | cancelled | popped | purged | dropped | rescheduled. p_archived_at: of those that went
-- to the archive; p_unarchived: those that were not archived, as pgqueue_archive has them.
-- Locks: none, but NOTIFY lets transactions commit one after the other; hence it is off by default.
CREATE FUNCTION pgqueue_publish(p_event text, p_ids bigint[], p_archived_at timestamptz DEFAULT NULL,
    p_unarchived jsonb DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_told record;
    v_base jsonb;
    v_fit integer;
BEGIN
    -- A transaction that has notified cannot be prepared for a two-phase commit.
    IF current_setting('pgqueue.notify', true) = 'off' THEN
        RETURN;
    END IF;
    FOR v_told IN
        SELECT t.queue, t.channel, t.handler, t.attempts, t.reason, min(t.dequeue_at) AS dequeue_at,
            array_agg(t.id ORDER BY t.id) AS ids
        FROM (
            SELECT c.queue, c.name AS channel, m.handler, m.attempts, NULL AS reason,
                greatest(m.dequeue_at, m.held_until) AS dequeue_at, m.id
            FROM pgqueue_message AS m
            JOIN pgqueue_channel AS c ON c.id = m.channel_id
            WHERE m.id = ANY (p_ids)
            UNION ALL
            SELECT a.queue, a.channel, a.handler, a.attempts, NULL, NULL, a.id
            FROM pgqueue_archived_message AS a
            WHERE a.id = ANY (p_ids) AND a.archived_at = p_archived_at
            UNION ALL
            SELECT u.queue, u.channel, u.handler, u.attempts, NULL, NULL, u.id
            FROM jsonb_to_recordset(p_unarchived) AS u (queue text, channel text, handler text, attempts integer,
                id bigint)
            UNION ALL
            SELECT d.queue, d.channel, d.handler, d.attempts, d.reason, NULL, d.id
            FROM pgqueue_dead_letter AS d
            WHERE d.id = ANY (p_ids)
        ) AS t
        JOIN pgqueue_queue AS q ON q.name = t.queue AND q.events
        GROUP BY t.queue, t.channel, t.handler, t.attempts, t.reason
        ORDER BY min(t.id)
    LOOP
        v_base := jsonb_strip_nulls(jsonb_build_object(
            'event', p_event, 'at', v_now, 'queue', v_told.queue, 'channel', v_told.channel, 'handler', v_told.handler,
            'attempts', v_told.attempts, 'dequeue_at', v_told.dequeue_at, 'reason', v_told.reason));
        -- An id takes 21 bytes at most. The names leave room for some, however long they are.
        v_fit := (7900 - octet_length(v_base::text)) / 21;
        FOR v_from IN 1..cardinality(v_told.ids) BY v_fit LOOP
            PERFORM pg_notify('pgqueue_events',
                (v_base || jsonb_build_object('ids', v_told.ids[v_from : v_from + v_fit - 1]))::text);
        END LOOP;
    END LOOP;
END;
$$;
