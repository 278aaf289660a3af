-- Makes partitions ahead, drops archive partitions and dead letters past retention, deletes archived messages past the
-- retention of their queue (16 ranges in a call), removes drained released channels, and tidies up the line
-- (pgqueue_prune_line). It adds messages settled without an archive to the total, when no measurement of the last hour
-- has done so.
-- The maintenance of a worker runs it each few minutes; cron may run it, too. NULL keeps for ever; p_keep_unexported
-- keeps the rows that a lake lacks.
-- Returns counts.
-- Locks: pg_try_advisory_xact_lock (one pruner at a time, and none beside a measurement); as pgqueue_drop_partitions.
CREATE FUNCTION pgqueue_prune(
    p_archive_retention interval DEFAULT NULL,
    p_dead_letter_retention interval DEFAULT NULL,
    p_partitions_ahead integer DEFAULT 7,
    p_keep_unexported boolean DEFAULT false
)
RETURNS TABLE (
    partitions_made integer,
    partitions_dropped integer,
    dead_letters_deleted integer,
    channels_removed integer,
    partitions_kept integer,
    archived_deleted bigint
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_exported_xid xid8;
    v_step record;
BEGIN
    partitions_made := 0;
    partitions_dropped := 0;
    dead_letters_deleted := 0;
    channels_removed := 0;
    partitions_kept := 0;
    archived_deleted := 0;
    IF NOT pg_try_advisory_xact_lock(7205, 2) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    partitions_made := pgqueue_make_partitions(p_partitions_ahead);
    SELECT d.dropped, d.kept INTO partitions_dropped, partitions_kept
    FROM pgqueue_drop_partitions(p_archive_retention, coalesce(p_keep_unexported, false)) AS d;
    FOR v_range IN 1 .. 16 LOOP
        v_step := pgqueue_prune_queues(coalesce(p_keep_unexported, false));
        archived_deleted := archived_deleted + v_step.deleted;
        EXIT WHEN NOT v_step.more;
    END LOOP;
    -- The app of the pipeline may not be installed. Its functions are asked, not its tables: a caller could put a table
    -- into pg_temp.
    IF to_regproc('pgqueue_exported_xid') IS NOT NULL THEN
        v_exported_xid := pgqueue_exported_xid();
    END IF;
    -- Deletes dead letters past retention.
    WITH gone AS (
        DELETE FROM pgqueue_dead_letter AS d
        WHERE d.id IN (
            SELECT o.id FROM pgqueue_dead_letter AS o
            LEFT JOIN pgqueue_queue AS q ON q.name = o.queue
            WHERE o.dead_at < clock_timestamp() - coalesce(q.dead_letter_retention, p_dead_letter_retention)
                AND (o.xid < v_exported_xid OR p_keep_unexported IS NOT TRUE)
            ORDER BY o.id LIMIT 10000 FOR UPDATE OF o SKIP LOCKED)
        RETURNING d.queue, d.channel
    ),
    -- Counts them by channel.
    counted AS (
        SELECT g.queue, g.channel, count(*) AS messages FROM gone AS g GROUP BY g.queue, g.channel
    ),
    -- Adds them to the tally.
    tallied AS (
        INSERT INTO pgqueue_tally AS t (queue, channel, messages)
        SELECT c.queue, c.channel, c.messages FROM counted AS c
        ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages
    )
    SELECT coalesce(sum(c.messages), 0) INTO dead_letters_deleted FROM counted AS c;
    -- Deletes logs as old as the archive keeps messages, if their message has ended and is no dead letter.
    DELETE FROM pgqueue_log AS l
    WHERE (l.message_id, l.lease_token) IN (
        SELECT o.message_id, o.lease_token FROM pgqueue_log AS o
        LEFT JOIN pgqueue_queue AS q ON q.name = o.queue
        WHERE o.written_at < clock_timestamp() - coalesce(q.retention, p_archive_retention)
            AND NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = o.message_id)
            AND NOT EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = o.message_id)
        ORDER BY o.written_at LIMIT 10000 FOR UPDATE OF o SKIP LOCKED);
    -- Does the work of pgqueue_measure_tidy when no measurement runs; under its lock, since both change the same
    -- totals.
    IF pg_try_advisory_xact_lock(7205, 3) THEN
        -- Takes the messages without an archive that no measurement has counted.
        WITH late AS (
            DELETE FROM pgqueue_unarchived AS u WHERE u.settled_at < clock_timestamp() - interval '1 hour'
            RETURNING u.queue, u.channel, u.attempts
        )
        INSERT INTO pgqueue_unarchived_total AS t (queue, channel, messages)
        SELECT l.queue, l.channel, sum(cardinality(l.attempts)) FROM late AS l GROUP BY l.queue, l.channel
        ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages;
    END IF;
    IF to_regproc('pgqueue_batch_prune') IS NOT NULL THEN
        PERFORM pgqueue_batch_prune(p_archive_retention);
    END IF;
    channels_removed := pgqueue_remove_released();
    PERFORM pgqueue_prune_line();
    RETURN NEXT;
END;
$$;
