-- Returns the error in a value of archive; NULL when the value is valid, or NULL.
-- Locks: none.
CREATE FUNCTION pgqueue_archive_problem(p_archive text)
RETURNS text
LANGUAGE sql
STABLE
AS $$
SELECT CASE WHEN p_archive NOT IN ('full', 'outcome', 'none') THEN
    format('archive is %s: it takes full, outcome or none', left(p_archive, 100))
END;
$$;
