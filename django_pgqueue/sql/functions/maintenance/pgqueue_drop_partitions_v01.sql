-- Drops the archive's partitions whose day ended longer ago than p_retention, or than the longest retention of a queue
-- if that is longer; NULL keeps all. With p_keep_unexported it drops only those that every lake holds: none without a
-- lake, or without the app of the pipeline. Their messages are added to the tally.
-- Messages that a lake has not seen are counted in its row, and reported by a warning.
-- Returns dropped: the partitions that are gone; kept: those past retention that are not exported, or in use: all of
--   them are left then, for the next time.
-- Locks: SHARE of each partition, NOWAIT; DDL with lock_timeout 2 s.
CREATE FUNCTION pgqueue_drop_partitions(
    p_retention interval,
    p_keep_unexported boolean,
    OUT dropped integer,
    OUT kept integer
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_past regclass[];
    v_partition regclass;
    v_day date;
    v_due regclass[] := '{}';
    v_is_due boolean := NOT p_keep_unexported;
    v_lost bigint;
    v_longest interval := (SELECT max(q.retention) FROM pgqueue_queue AS q);
    v_timeout text := current_setting('lock_timeout');
BEGIN
    v_past := ARRAY(
        SELECT c.oid::regclass FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'pgqueue_archived_message'::regclass
            AND c.relname ~ '^pgqueue_archived_message_[0-9]{4}(0[1-9]|1[0-2])([0-2][0-9]|3[01])$'
            AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 < (clock_timestamp() AT TIME ZONE 'UTC')
                - CASE WHEN p_retention IS NOT NULL THEN greatest(p_retention, v_longest) END
        ORDER BY c.relname);
    BEGIN
        FOREACH v_partition IN ARRAY v_past LOOP
            -- Without this lock, rows that are committed after the count would be dropped with the table, uncounted.
            EXECUTE format('LOCK %s IN SHARE MODE NOWAIT', v_partition);
            v_day := (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_class AS c WHERE c.oid = v_partition);
            IF p_keep_unexported AND to_regproc('pgqueue_is_exported') IS NOT NULL THEN
                -- Where a queue's retention has deleted rows, the lake had the whole day before.
                v_is_due := pgqueue_is_exported(v_partition, v_day,
                    NOT EXISTS (SELECT FROM pgqueue_pruned AS p WHERE p.day = v_day));
            END IF;
            IF v_is_due THEN
                EXECUTE format(
                    'INSERT INTO pgqueue_tally AS t (queue, channel, messages) '
                    'SELECT queue, channel, count(*) FROM %s GROUP BY queue, channel
                    ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages', v_partition);
                IF to_regproc('pgqueue_record_lost') IS NOT NULL THEN
                    v_lost := pgqueue_record_lost(v_partition, v_day);
                    IF v_lost > 0 THEN
                        RAISE WARNING 'pgqueue: the archive of % is dropped, and a lake lacks % of its messages',
                            v_day, v_lost
                            USING HINT = 'Export more often, or set KEEP_UNTIL_EXPORTED.';
                    END IF;
                END IF;
                v_due := v_due || v_partition;
            END IF;
        END LOOP;
        -- The slow work is done: from the first drop on, nothing can be settled until the transaction ends.
        PERFORM set_config('lock_timeout', '2s', true);
        FOREACH v_partition IN ARRAY v_due LOOP
            v_day := (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_class AS c WHERE c.oid = v_partition);
            DELETE FROM pgqueue_pruned AS p WHERE p.day = v_day;
            EXECUTE format('DROP TABLE %s', v_partition);
        END LOOP;
        PERFORM set_config('lock_timeout', v_timeout, true);
    EXCEPTION WHEN lock_not_available THEN
        v_due := '{}';
    END;
    dropped := cardinality(v_due);
    kept := cardinality(v_past) - dropped;
END;
$$;
