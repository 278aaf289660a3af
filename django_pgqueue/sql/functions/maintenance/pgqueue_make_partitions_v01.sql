-- Makes the archive's partitions, one for each day (UTC), from today to p_days ahead. Readers of the archive may read a
-- partition also by its own name, as the export does.
-- Returns the number of new partitions.
-- Locks: SHARE UPDATE EXCLUSIVE of the archive, only when a partition is missing: no settlement waits for it.
CREATE FUNCTION pgqueue_make_partitions(p_days integer DEFAULT 7)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_day date;
    v_name text;
    v_reader text;
    v_count integer := 0;
    v_timeout text := current_setting('lock_timeout');
BEGIN
    FOR v_day IN
        SELECT d::date FROM generate_series((now() AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date + p_days,
            '1 day') AS d
    LOOP
        v_name := 'pgqueue_archived_message_' || to_char(v_day, 'YYYYMMDD');
        IF to_regclass(v_name) IS NULL THEN
            PERFORM set_config('lock_timeout', '2s', true);
            -- Other styles of DateStyle write the abbreviation of a time zone, which may be read as another zone.
            -- The table is attached, not created as a partition: no settlement waits for the lock of an ATTACH.
            EXECUTE format('CREATE TABLE %I (LIKE pgqueue_archived_message INCLUDING ALL)', v_name);
            EXECUTE format(
                'ALTER TABLE pgqueue_archived_message ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                v_name, to_char(v_day, 'YYYY-MM-DD 00:00+00'), to_char(v_day + 1, 'YYYY-MM-DD 00:00+00'));
            FOR v_reader IN
                SELECT a.grantee::regrole FROM pg_class AS c, aclexplode(c.relacl) AS a
                WHERE c.oid = 'pgqueue_archived_message'::regclass AND a.privilege_type = 'SELECT'
                    AND a.grantee NOT IN (0, c.relowner)
            LOOP
                EXECUTE format('GRANT SELECT ON %I TO %s', v_name, v_reader);
            END LOOP;
            PERFORM set_config('lock_timeout', v_timeout, true);
            v_count := v_count + 1;
        END IF;
    END LOOP;
    RETURN v_count;
END;
$$;
