-- Returns the duration in seconds that a share of the durations in a histogram does not exceed: 0.5 is the median.
-- NULL: the histogram counts nothing.
-- Within a position the durations are taken to lie evenly on the logarithmic scale, so the answer is off by less than
-- the width of one position, a factor of 1.41.
-- Locks: none.
CREATE FUNCTION pgqueue_histogram_percentile(p_counts bigint[], p_share double precision)
RETURNS double precision
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    v_total bigint := 0;
    v_wanted double precision;
    v_seen bigint := 0;
    v_count bigint;
    v_place integer := 0;
BEGIN
    FOREACH v_count IN ARRAY coalesce(p_counts, '{}') LOOP
        v_total := v_total + v_count;
    END LOOP;
    v_wanted := p_share * v_total;
    FOREACH v_count IN ARRAY coalesce(p_counts, '{}') LOOP
        v_place := v_place + 1;
        IF v_count > 0 AND v_seen + v_count >= v_wanted THEN
            RETURN CASE v_place
                WHEN 1 THEN 0.001 * (v_wanted - v_seen) / v_count
                WHEN 61 THEN 0.001 * 2 ^ 29.5
                ELSE 0.001 * 2 ^ ((v_place - 2 + (v_wanted - v_seen) / v_count) / 2)
            END;
        END IF;
        v_seen := v_seen + v_count;
    END LOOP;
    RETURN NULL;
END;
$$;
