-- Adds two histograms, position by position; the shorter one counts nothing beyond its end.
-- Locks: none.
CREATE FUNCTION pgqueue_histogram_add(p_one integer[], p_other integer[])
RETURNS integer[]
LANGUAGE sql
IMMUTABLE
AS $$
SELECT coalesce(array_agg(coalesce(u.one, 0) + coalesce(u.other, 0) ORDER BY u.place), '{}')
FROM unnest(p_one, p_other) WITH ORDINALITY AS u (one, other, place);
$$;
