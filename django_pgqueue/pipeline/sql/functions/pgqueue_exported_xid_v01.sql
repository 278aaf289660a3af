-- Returns the transaction up to which every lake has everything: the smallest that the lakes' last exports reported.
-- NULL without a lake.
-- The callers use it where the app of the pipeline is installed.
-- Locks: none.
CREATE FUNCTION pgqueue_exported_xid()
RETURNS xid8
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (SELECT min(l.exported_xid) FROM pgqueue_lake AS l)::text::xid8;
END;
$$;
