-- Returns whether this transaction has written a row that it sees. p_xmin: the row's xmin.
-- Locks: none.
CREATE FUNCTION pgqueue_is_mine(p_xmin xid)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_mine bigint := pg_current_xact_id()::text::bigint;
    v_ahead bigint := (p_xmin::text::bigint - v_mine) & 4294967295;
BEGIN
    -- The savepoints of this transaction have larger ids than itself. What others have written is seen when it is
    -- committed.
    RETURN v_ahead < 2147483648 AND pg_xact_status((v_mine + v_ahead)::text::xid8) = 'in progress';
EXCEPTION WHEN invalid_parameter_value THEN
    -- The row is two billion transactions old: its id looks like one of the future.
    RETURN false;
END;
$$;
