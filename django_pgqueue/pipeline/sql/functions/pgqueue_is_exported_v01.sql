-- Returns whether every lake that the database knows holds a whole archive partition: as many rows of its day, and none
-- of a transaction that the lake has not seen. Without a lake: false.
-- Caller: pgqueue_drop_partitions.
-- The caller has locked the partition.
-- Locks: none.
CREATE FUNCTION pgqueue_is_exported(p_partition regclass, p_day date)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_path text[] := ARRAY['archive', to_char(p_day, 'YYYY-MM-DD')];
    v_rows bigint[];
    v_seen bigint;
    v_count bigint;
    v_newest_is_in boolean;
BEGIN
    SELECT array_agg(DISTINCT CASE WHEN jsonb_typeof(l.rows #> v_path) = 'number' THEN (l.rows #> v_path)::bigint
        ELSE 0 END),
        min(l.exported_xid)
    INTO v_rows, v_seen
    FROM pgqueue_lake AS l;
    IF cardinality(v_rows) IS DISTINCT FROM 1 THEN
        RETURN false;
    END IF;
    -- Counts one row more than there should be: a partition that is not exported at all is not counted each time.
    EXECUTE format(
        'SELECT count(*), coalesce(bool_and(a.xid < $1), true) FROM (SELECT p.xid FROM %s AS p LIMIT $2) AS a',
        p_partition)
    INTO v_count, v_newest_is_in
    USING v_seen::text::xid8, v_rows[1] + 1;
    RETURN v_count = v_rows[1] AND v_newest_is_in;
END;
$$;
