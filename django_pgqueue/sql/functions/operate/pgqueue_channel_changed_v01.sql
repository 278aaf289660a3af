-- Makes the next dequeue look at the lanes of channels whose limits, order, pause or weight were edited (by admin, ORM
-- or SQL). Messages that are held in a channel which is not ordered any more become scheduled ones: one that holds it,
-- and those that were leased before it was ordered and failed since; one that waits for a shared limit goes on waiting.
-- Statement trigger, AFTER UPDATE (transition tables: old_channels, new_channels).
-- Locks: held messages, SKIP LOCKED. Only dequeue changes the lane.
CREATE FUNCTION pgqueue_channel_changed()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_changed bigint[];
    v_freed bigint[];
    v_stopping bigint[];
BEGIN
    IF EXISTS (SELECT FROM new_channels AS n JOIN old_channels AS o ON o.id = n.id WHERE n.queue <> o.queue) THEN
        RAISE EXCEPTION 'a channel cannot move to another queue'
            USING ERRCODE = 'PGQ07',
            HINT = 'Create a channel of the same name in the other queue, and release this one.';
    END IF;
    -- Without a max_size the count is not kept: a later max_size begins with a new one.
    DELETE FROM pgqueue_channel_size AS s
    USING new_channels AS n, old_channels AS o
    WHERE n.id = s.channel_id AND o.id = n.id AND (n.max_size IS NULL) <> (o.max_size IS NULL);
    DELETE FROM pgqueue_departure AS d
    USING new_channels AS n, old_channels AS o
    WHERE n.id = d.channel_id AND o.id = n.id AND (n.max_size IS NULL) <> (o.max_size IS NULL);

    -- A channel that is to pause at dead letters from now on does not pause at an earlier one.
    v_stopping := ARRAY(
        SELECT n.id FROM new_channels AS n JOIN old_channels AS o ON o.id = n.id
        WHERE n.ordered AND n.on_dead = 'pause' AND NOT (o.ordered AND o.on_dead = 'pause'));
    IF v_stopping <> '{}' THEN
        UPDATE pgqueue_channel AS c SET stopped_by = d.id
        FROM pgqueue_lane AS l JOIN pgqueue_dead_letter AS d ON d.id = l.current_id
        WHERE c.id = ANY (v_stopping) AND l.channel_id = c.id;
    END IF;

    v_changed := ARRAY(
        SELECT n.id
        FROM new_channels AS n
        JOIN old_channels AS o ON o.id = n.id
        WHERE (n.max_concurrency, n.max_size, n.release_interval, n.release_burst, n.weight, n.paused_at, n.released_at,
                n.ordered)
            IS DISTINCT FROM
            (o.max_concurrency, o.max_size, o.release_interval, o.release_burst, o.weight, o.paused_at, o.released_at,
                o.ordered));
    IF v_changed = '{}' THEN
        RETURN NULL;
    END IF;
    v_freed := ARRAY(
        SELECT n.id FROM new_channels AS n JOIN old_channels AS o ON o.id = n.id AND o.ordered AND NOT n.ordered);
    IF v_freed <> '{}' THEN
        -- Reads all ready and scheduled messages of the channel.
        UPDATE pgqueue_message AS m
        SET status = 3, dequeue_at = CASE WHEN m.waits_for IS NULL THEN m.held_until ELSE m.dequeue_at END,
            held_until = NULL
        WHERE m.id = ANY (ARRAY(
            SELECT h.id FROM pgqueue_message AS h
            WHERE h.channel_id = ANY (v_freed) AND h.status IN (1, 3) AND h.held_until IS NOT NULL
            FOR UPDATE SKIP LOCKED));
    END IF;
    INSERT INTO pgqueue_arrival (queue, channel_id)
    SELECT c.queue, c.id FROM pgqueue_channel AS c WHERE c.id = ANY (v_changed);
    -- Open transactions may still go by the old limits: the sweep looks at the channel again for ten minutes.
    UPDATE pgqueue_channel AS c SET changed_at = clock_timestamp(), released_xid = NULL WHERE c.id = ANY (v_changed);
    PERFORM pgqueue_wake(q.queue)
    FROM (SELECT DISTINCT n.queue FROM new_channels AS n WHERE n.id = ANY (v_changed)) AS q;
    RETURN NULL;
END;
$$;
