-- Returns whether a time is within the years 2 to 9998: Python and Spark have no others, and time zones move these by a
-- day at most.
-- The function is IMMUTABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_is_valid_time(p_at timestamptz)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
AS $$
SELECT p_at >= '0002-01-01 00:00+00' AND p_at < '9999-01-01 00:00+00';
$$;
