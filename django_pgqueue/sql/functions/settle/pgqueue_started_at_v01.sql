-- Returns when a handler started that has run for p_seconds: not before its lease, and not after p_now.
-- The worker measures p_seconds by its monotonic clock, so its other clock need not agree with the database's. NULL or
-- a negative number: unknown, and so is the start. The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_started_at(p_now timestamptz, p_leased_at timestamptz, p_seconds double precision)
RETURNS timestamptz
LANGUAGE sql
STABLE
AS $$
SELECT CASE WHEN p_seconds >= 0 THEN greatest(p_leased_at, p_now - make_interval(secs => p_seconds)) END;
$$;
