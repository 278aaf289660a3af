-- Records what a lake holds after an export: everything of transactions before p_exported_xid, p_rows rows {table:
-- {day: rows}}.
-- The export calls it after its commit, and again when it is unsure whether the call succeeded. The record never goes
-- back: the late call of an older export changes nothing.
-- Returns whether it was recorded.
-- Locks: the lake's row.
CREATE FUNCTION pgqueue_lake_exported(p_name text, p_path text, p_exported_xid bigint, p_rows jsonb)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgqueue_lake AS l (name, path, exported_xid, exported_at, rows)
    VALUES (p_name, p_path, p_exported_xid, v_now, coalesce(p_rows, '{}'))
    ON CONFLICT (name) DO UPDATE
    SET path = excluded.path, exported_xid = excluded.exported_xid,
        exported_at = greatest(l.exported_at, excluded.exported_at), rows = excluded.rows
    WHERE l.exported_xid <= excluded.exported_xid;
    RETURN FOUND;
END;
$$;
