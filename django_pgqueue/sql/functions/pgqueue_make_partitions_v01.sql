-- Makes the archive's partitions, a day each (UTC), from today to p_days ahead.
-- Caller: the migration, pgqueue_prune. Returns how many are new. Locks: the archive's parent, briefly, only when a partition is missing;
--   with lock_timeout, so that nobody queues up behind it for long.
CREATE FUNCTION pgqueue_make_partitions(p_days integer DEFAULT 7)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_day date;
    v_name text;
    v_count integer := 0;
    v_timeout text := current_setting('lock_timeout');
BEGIN
    FOR v_day IN
        SELECT d::date FROM generate_series((now() AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date + p_days, '1 day') AS d
    LOOP
        v_name := 'pgqueue_archived_message_' || to_char(v_day, 'YYYYMMDD');
        IF to_regclass(v_name) IS NULL THEN
            PERFORM set_config('lock_timeout', '2s', true);
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF pgqueue_archived_message FOR VALUES FROM (%L) TO (%L)',
                v_name, v_day::timestamp AT TIME ZONE 'UTC', (v_day + 1)::timestamp AT TIME ZONE 'UTC');
            PERFORM set_config('lock_timeout', v_timeout, true);
            v_count := v_count + 1;
        END IF;
    END LOOP;
    RETURN v_count;
END;
$$;
