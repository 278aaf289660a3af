-- Returns the error in the handler or the settings of a breaker; NULL when both are valid.
-- p_settings: as in pgqueue_breaker_set.
-- Locks: none.
CREATE FUNCTION pgqueue_breaker_problem(p_handler text, p_settings jsonb)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_known text[] := ARRAY['failures', 'within', 'pause', 'per'];
BEGIN
    RETURN CASE
        WHEN coalesce(p_handler, '') = '' OR length(p_handler) > 160 THEN
            'the name of its handler takes 1 to 160 characters'
        WHEN jsonb_typeof(p_settings) IS DISTINCT FROM 'object' THEN 'the settings are not a JSON object'
        WHEN p_settings - v_known <> '{}' THEN
            format('unknown settings %s; known are %s', left((p_settings - v_known)::text, 100), v_known)
        WHEN p_settings @? '$.failures ? (@.type() == "number" && @ >= 1 && @ <= 1000 && @ == @.floor())' IS NOT TRUE
            THEN 'failures is not a whole number from 1 to 1000'
        WHEN coalesce((p_settings ->> 'within')::interval NOT BETWEEN '1 microsecond' AND '365000 days', true)
            THEN 'within is not between a microsecond and 365000 days'
        WHEN coalesce((p_settings ->> 'pause')::interval NOT BETWEEN '1 second' AND '365000 days', true)
            THEN 'pause is not between a second and 365000 days'
        WHEN coalesce(p_settings ->> 'per', 'handler') NOT IN ('handler', 'channel')
            THEN 'per is neither handler nor channel'
    END;
END;
$$;
