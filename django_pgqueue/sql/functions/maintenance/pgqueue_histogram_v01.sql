-- Counts durations on a logarithmic scale: position 1 has those of less than a millisecond, position n >= 2 those from
-- 2^((n-2)/2) ms up to 2^((n-1)/2) ms, position 61 all that are longer (nine days and more).
-- NULLs are left out; the array ends with the last position that counts something.
-- Locks: none.
CREATE FUNCTION pgqueue_histogram(p_seconds double precision[])
RETURNS integer[]
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    v_counts integer[] := array_fill(0, ARRAY[61]);
    v_seconds double precision;
    v_place integer;
    v_last integer := 0;
BEGIN
    FOREACH v_seconds IN ARRAY coalesce(p_seconds, '{}') LOOP
        CONTINUE WHEN v_seconds IS NULL;
        v_place := CASE WHEN v_seconds < 0.001 THEN 1
            ELSE least(61, 2 + floor(2 * ln(v_seconds * 1000) / ln(2::double precision))) END;
        v_counts[v_place] := v_counts[v_place] + 1;
        v_last := greatest(v_last, v_place);
    END LOOP;
    RETURN v_counts[1:v_last];
END;
$$;
