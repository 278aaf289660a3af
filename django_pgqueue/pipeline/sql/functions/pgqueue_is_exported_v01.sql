-- Returns whether every lake that the database knows holds a whole archive partition: as many rows of its day, and none
-- of a transaction that the lake has not seen. Without a lake: false.
-- A caller that drops the partition has locked it. p_counted: false leaves the number of rows out, for a partition from
-- which the retention of a queue has deleted rows.
-- Locks: none.
CREATE FUNCTION pgqueue_is_exported(p_partition regclass, p_day date, p_counted boolean DEFAULT true)
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
    IF v_seen IS NULL OR p_counted AND cardinality(v_rows) <> 1 THEN
        RETURN false;
    END IF;
    -- Counts one row more than there should be: a partition that is not exported at all is not counted each time.
    EXECUTE format(
        'SELECT count(*), coalesce(bool_and(a.xid < $1), true) FROM (SELECT p.xid FROM %s AS p LIMIT $2) AS a',
        p_partition)
    INTO v_count, v_newest_is_in
    USING v_seen::text::xid8, CASE WHEN p_counted THEN v_rows[1] + 1 END;
    RETURN v_newest_is_in AND (NOT p_counted OR v_count = v_rows[1]);
END;
$$;
