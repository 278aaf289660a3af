-- Returns the error in a retention of a queue; NULL when it is valid, or NULL.
-- p_name: of the setting.
-- Locks: none.
CREATE FUNCTION pgqueue_retention_problem(p_name text, p_retention text)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF p_retention::interval NOT BETWEEN '1 microsecond' AND '365000 days' THEN
        RETURN format('%s is not between 1 microsecond and 365000 days', p_name);
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    RETURN format('%s is not an interval but %s', p_name, left(p_retention, 100));
END;
$$;
