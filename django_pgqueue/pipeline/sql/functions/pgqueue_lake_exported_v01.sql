-- Writes down what a lake holds after an export: everything of transactions before p_exported_xid, p_rows rows {table: {day: rows}}.
-- Caller: the export, after its commit; again if it does not know whether it was heard. Never goes back: what an older export says late
--   changes nothing. Returns whether it was written down. Locks: the lake's row.
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
    SET path = excluded.path, exported_xid = excluded.exported_xid, exported_at = greatest(l.exported_at, excluded.exported_at),
        rows = excluded.rows
    WHERE l.exported_xid <= excluded.exported_xid;
    RETURN FOUND;
END;
$$;
