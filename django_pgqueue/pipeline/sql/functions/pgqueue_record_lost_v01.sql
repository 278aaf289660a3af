-- Records for each lake how many messages of an archive partition it has not seen, before the partition is dropped.
-- A caller has locked the partition. Each lake keeps the numbers by day in its row, for the next export and for verify.
-- Returns the most messages that a lake loses.
-- Locks: the rows of lakes that lose messages, for as long as an export reports to one.
CREATE FUNCTION pgqueue_record_lost(p_partition regclass, p_day date)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_lake record;
    v_lost bigint;
    v_most bigint := 0;
BEGIN
    FOR v_lake IN SELECT l.name, l.exported_xid FROM pgqueue_lake AS l ORDER BY l.name LOOP
        EXECUTE format('SELECT count(*) FROM %s AS p WHERE p.xid >= $1', p_partition)
        INTO v_lost
        USING v_lake.exported_xid::text::xid8;
        IF v_lost > 0 THEN
            UPDATE pgqueue_lake AS l
            SET lost = l.lost || jsonb_build_object(to_char(p_day, 'YYYY-MM-DD'), v_lost)
            WHERE l.name = v_lake.name;
            v_most := greatest(v_most, v_lost);
        END IF;
    END LOOP;
    RETURN v_most;
END;
$$;
