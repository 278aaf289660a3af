-- Drops a queue, a part in each call: releases its channels, removes its schedules and its row. The archive and the
-- dead letters stay.
-- p_purge: ready and scheduled messages go to the archive as purged; without it a queue that holds messages is refused.
-- The queue is paused meanwhile, so none of its messages is delivered. A call handles at most p_limit messages and
-- channels: call again while it returns dropping. pgqueue_remove_released removes the rows of the channels.
-- Returns dropped or dropping, and how much this call has done; or the refusal: PGQ03 there is no such queue, PGQ07
--   p_limit is less than 1, PGQ10 messages are leased, or they wait and p_purge is false.
-- Locks: the queue's row; messages, channels, schedules and corrections of costs, SKIP LOCKED.
CREATE FUNCTION pgqueue_queue_drop(
    p_queue text,
    p_purge boolean DEFAULT false,
    p_limit integer DEFAULT 10000,
    OUT messages integer,
    OUT channels integer,
    OUT schedules integer,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    refusal := CASE
        WHEN p_limit IS NULL OR p_limit < 1 THEN
            pgqueue_refusal('PGQ07', format('a drop takes a limit of 1 or more, not %s',
                coalesce(p_limit::text, 'NULL')))
        WHEN p_purge IS NULL THEN pgqueue_refusal('PGQ07', 'a drop takes true or false for p_purge, not NULL')
        ELSE coalesce(pgqueue_missing_queue(p_queue), pgqueue_queue_holds(p_queue, p_purge))
    END;
    IF refusal IS NOT NULL THEN
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    PERFORM pgqueue_queue_pause(p_queue, 'the queue is being dropped');
    -- The channels keep what the queue's row said: a message may still come from an open transaction.
    UPDATE pgqueue_channel AS c
    SET released_at = clock_timestamp(),
        archive = coalesce(c.archive, (SELECT q.archive FROM pgqueue_queue AS q WHERE q.name = p_queue))
    WHERE c.id = ANY (ARRAY(
        SELECT r.id FROM pgqueue_channel AS r
        WHERE r.queue = p_queue AND r.released_at IS NULL
        ORDER BY r.id
        LIMIT p_limit
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS channels = ROW_COUNT;
    messages := CASE WHEN p_purge THEN (pgqueue_queue_purge(p_queue, p_limit)).messages ELSE 0 END;
    DELETE FROM pgqueue_schedule AS s
    WHERE s.id = ANY (ARRAY(SELECT r.id FROM pgqueue_schedule AS r WHERE r.queue = p_queue FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS schedules = ROW_COUNT;
    outcome := 'dropping';
    IF NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.released_at IS NULL)
        AND NOT EXISTS (SELECT FROM pgqueue_schedule AS s WHERE s.queue = p_queue)
        AND pgqueue_queue_holds(p_queue, false) IS NULL
    THEN
        DELETE FROM pgqueue_queue AS q WHERE q.name = p_queue;
        DELETE FROM pgqueue_spent AS s
        WHERE s.ctid = ANY (ARRAY(
            SELECT o.ctid FROM pgqueue_spent AS o WHERE o.queue = p_queue FOR UPDATE SKIP LOCKED));
        outcome := 'dropped';
    END IF;
END;
$$;
