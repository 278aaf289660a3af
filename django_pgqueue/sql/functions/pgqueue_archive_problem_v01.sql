-- Returns what is wrong with a choice of what is archived; NULL when nothing is, or nothing is chosen.
-- Caller: what takes such a choice: for a queue, a channel or a call. Locks: none.
CREATE FUNCTION pgqueue_archive_problem(p_archive text)
RETURNS text
LANGUAGE sql
STABLE
AS $$
SELECT CASE WHEN p_archive NOT IN ('full', 'outcome', 'none') THEN
    format('archive is %s: it takes full, outcome or none', left(p_archive, 100))
END;
$$;
