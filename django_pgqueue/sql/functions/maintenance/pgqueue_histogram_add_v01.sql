-- Adds two histograms, position by position; the shorter one counts nothing beyond its end. If a position would be too
-- large, the second one is returned: a counter begins anew.
-- Locks: none.
CREATE FUNCTION pgqueue_histogram_add(p_one integer[], p_other integer[])
RETURNS integer[]
LANGUAGE sql
IMMUTABLE
AS $$
SELECT CASE WHEN max(s.sum) > 2147483647 THEN p_other
    ELSE coalesce(array_agg(s.sum ORDER BY s.place)::integer[], '{}') END
FROM (
    SELECT coalesce(u.one, 0)::bigint + coalesce(u.other, 0) AS sum, u.place
    FROM unnest(p_one, p_other) WITH ORDINALITY AS u (one, other, place)
) AS s;
$$;
