-- Returns the duration in seconds that a share of the durations in a histogram does not exceed: 0.5 is the median.
-- NULL: the histogram counts nothing.
-- Within a position the durations are taken to lie evenly on the logarithmic scale, so the answer is off by less than
-- the width of one position, a factor of 1.41.
-- Locks: none.
CREATE FUNCTION pgqueue_histogram_percentile(p_counts bigint[], p_share double precision)
RETURNS double precision
LANGUAGE sql
IMMUTABLE
AS $$
-- Takes the first position at which the share is reached.
SELECT CASE n.place
    WHEN 1 THEN 0.001 * (n.wanted - n.seen) / n.count
    WHEN 61 THEN 0.001 * 2 ^ 29.5
    ELSE 0.001 * 2 ^ ((n.place - 2 + (n.wanted - n.seen) / n.count) / 2)
END
FROM (
    SELECT u.place, u.count, p_share * sum(u.count) OVER ()::double precision AS wanted,
        (sum(u.count) OVER (ORDER BY u.place) - u.count)::double precision AS seen
    FROM unnest(p_counts) WITH ORDINALITY AS u (count, place)
) AS n
WHERE n.count > 0 AND n.seen + n.count >= n.wanted
ORDER BY n.place LIMIT 1;
$$;
