-- Adds two histograms, position by position; the shorter one counts nothing beyond its end.
-- Locks: none.
CREATE FUNCTION pgqueue_histogram_add(p_one integer[], p_other integer[])
RETURNS integer[]
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    v_sum integer[] := CASE WHEN cardinality(p_one) < cardinality(p_other) THEN p_other ELSE p_one END;
    v_less integer[] := CASE WHEN cardinality(p_one) < cardinality(p_other) THEN p_one ELSE p_other END;
BEGIN
    FOR v_place IN 1 .. cardinality(v_less) LOOP
        v_sum[v_place] := v_sum[v_place] + v_less[v_place];
    END LOOP;
    RETURN v_sum;
END;
$$;
