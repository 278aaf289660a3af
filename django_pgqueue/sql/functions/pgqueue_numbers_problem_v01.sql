-- Returns the error in the numbers and intervals of limits; NULL when all are valid.
-- p_limits: a JSON object, as in pgqueue_channel_set and pgqueue_limit_set; p_thing: channel or limit.
-- Locks: none.
CREATE FUNCTION pgqueue_numbers_problem(p_limits jsonb, p_thing text)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_limit record;
BEGIN
    FOR v_limit IN
        SELECT e.key, e.value, CASE e.key WHEN 'weight' THEN 1000 ELSE 2147483647 END AS most
        FROM jsonb_each(p_limits) AS e
        WHERE e.key IN ('max_concurrency', 'max_size', 'max_cost', 'release_burst', 'weight') AND e.value <> 'null'
    LOOP
        IF jsonb_typeof(v_limit.value) <> 'number' THEN
            RETURN format('%s is not a number but %s', v_limit.key, left(v_limit.value::text, 100));
        ELSIF v_limit.value::numeric NOT BETWEEN 1 AND v_limit.most
            OR v_limit.value::numeric <> trunc(v_limit.value::numeric) THEN
            RETURN format('%s is not an integer from 1 to %s but %s%s', v_limit.key, v_limit.most,
                left(v_limit.value::text, 100),
                CASE
                    WHEN v_limit.value::numeric >= 1 THEN ''
                    WHEN v_limit.key = 'max_concurrency' THEN format(' (pause the %s instead)', p_thing)
                    WHEN v_limit.key = 'max_size' THEN format(' (release the %s instead)', p_thing)
                END);
        END IF;
    END LOOP;
    IF (p_limits ->> 'release_interval') IS NOT NULL THEN
        BEGIN
            IF (p_limits ->> 'release_interval')::interval NOT BETWEEN '1 microsecond' AND '365000 days' THEN
                RETURN 'release_interval is not between 1 microsecond and 365000 days';
            END IF;
        EXCEPTION WHEN data_exception THEN
            RETURN format('release_interval is not an interval but %s', left(p_limits ->> 'release_interval', 100));
        END;
    END IF;
    RETURN NULL;
END;
$$;
