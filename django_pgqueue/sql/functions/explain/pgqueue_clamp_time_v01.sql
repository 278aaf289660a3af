-- Returns a time that can be subtracted and shown, whatever the row contains: the nearest time in the years 2 to 9998.
-- NULL stays NULL.
-- pgqueue_sweep.
-- A row that came without the trigger, as by replication, may be at infinity. The function is IMMUTABLE, so that it
-- becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_clamp_time(p_at timestamptz)
RETURNS timestamptz
LANGUAGE sql
IMMUTABLE
AS $$
SELECT CASE
    WHEN p_at < '0002-01-01 00:00+00' THEN '0002-01-01 00:00+00'
    WHEN p_at > '9999-01-01 00:00+00' THEN '9999-01-01 00:00+00'
    ELSE p_at
END;
$$;
