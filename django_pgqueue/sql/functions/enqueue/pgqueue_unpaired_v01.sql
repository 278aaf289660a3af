-- Returns the error of arrays that have to pair up, when one has another length than the first; NULL when all have the
-- same length, or are NULL themselves.
-- p_length: the number of elements of the array p_first; p_names, p_lengths: of the others.
-- Locks: none.
CREATE FUNCTION pgqueue_unpaired(p_first text, p_length integer, p_names text[], p_lengths integer[])
RETURNS text
LANGUAGE sql
IMMUTABLE
AS $$
SELECT format('%s has %s element(s), %s has %s: give one for each', u.name, u.length, p_first,
    coalesce(p_length::text, 'none'))
FROM unnest(p_names, p_lengths) WITH ORDINALITY AS u (name, length, place)
WHERE u.length <> coalesce(p_length, -1)
ORDER BY u.place
LIMIT 1;
$$;
