-- Deletes archived messages past the retention of their queue: one range, 2,048 blocks (16 MB), of the oldest day that
-- has some. A day counts as past when it ended longer ago than the retention, as for partitions.
-- A day is read once for each queue: pgqueue_pruned keeps how far it is. Messages are added to the tally.
-- p_keep_unexported: only days that every lake holds as a whole.
-- Returns deleted: how many messages; more: call again, in a transaction of its own.
-- Locks: pg_try_advisory_xact_lock, the one of pgqueue_prune; the messages, for 2 seconds at most.
CREATE FUNCTION pgqueue_prune_queues(p_keep_unexported boolean DEFAULT false, OUT deleted bigint, OUT more boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET lock_timeout = 2000
SET jit = off
AS $$
DECLARE
    v_due record;
    v_is_due boolean;
BEGIN
    deleted := 0;
    more := false;
    IF NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.retention IS NOT NULL)
        OR NOT pg_try_advisory_xact_lock(7205, 2)
    THEN
        RETURN;
    END IF;
    FOR v_due IN
        SELECT q.name, d.day, d.relation, coalesce(p.block, 0) AS block,
            EXISTS (SELECT FROM pgqueue_pruned AS a WHERE a.day = d.day) AS has_begun
        FROM pgqueue_queue AS q
        CROSS JOIN (
            SELECT c.oid::regclass AS relation, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
            FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'pgqueue_archived_message'::regclass
                AND c.relname ~ '^pgqueue_archived_message_[0-9]{4}(0[1-9]|1[0-2])([0-2][0-9]|3[01])$'
        ) AS d
        LEFT JOIN pgqueue_pruned AS p ON p.queue = q.name AND p.day = d.day
        WHERE d.day + 1 < (clock_timestamp() AT TIME ZONE 'UTC') - q.retention
            AND (p.day IS NULL OR p.block IS NOT NULL)
        ORDER BY d.day, q.name
    LOOP
        v_is_due := NOT p_keep_unexported OR v_due.has_begun;
        IF p_keep_unexported AND to_regproc('pgqueue_is_exported') IS NOT NULL THEN
            v_is_due := pgqueue_is_exported(v_due.relation, v_due.day, NOT v_due.has_begun);
        END IF;
        CONTINUE WHEN NOT v_is_due;
        EXECUTE format(
            -- Deletes the rows, and counts them by channel.
            'WITH gone AS (
                DELETE FROM %s WHERE queue = $1 AND ctid >= ''(%s,0)''::tid AND ctid < ''(%s,0)''::tid
                RETURNING queue, channel
            ), tallied AS (
                INSERT INTO pgqueue_tally AS t (queue, channel, messages)
                SELECT queue, channel, count(*) FROM gone GROUP BY queue, channel
                ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages
            )
            SELECT count(*) FROM gone', v_due.relation, v_due.block, v_due.block + 2048)
        INTO deleted
        USING v_due.name;
        INSERT INTO pgqueue_pruned (queue, day, block)
        VALUES (v_due.name, v_due.day, CASE
            WHEN v_due.block + 2048 < pg_relation_size(v_due.relation) / current_setting('block_size')::bigint
                THEN v_due.block + 2048 END)
        ON CONFLICT (queue, day) DO UPDATE SET block = excluded.block;
        more := true;
        RETURN;
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    deleted := 0;
    more := false;
END;
$$;
