-- Returns the error in the name or the settings of a shared limit; NULL when both are valid.
-- p_settings: as in pgqueue_limit_set.
-- Locks: none.
CREATE FUNCTION pgqueue_limit_problem(p_name text, p_settings jsonb)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_known text[] := ARRAY['max_concurrency', 'max_cost', 'release_interval', 'release_burst', 'handlers',
        'forgive', 'per'];
BEGIN
    RETURN CASE
        WHEN coalesce(p_name, '') = '' OR length(p_name) > 200 THEN 'its name takes 1 to 200 characters'
        WHEN jsonb_typeof(p_settings) IS DISTINCT FROM 'object' THEN 'the settings are not a JSON object'
        WHEN p_settings - v_known <> '{}' THEN
            format('unknown settings %s; known are %s', left((p_settings - v_known)::text, 100), v_known)
        WHEN jsonb_typeof(p_settings -> 'handlers') NOT IN ('array', 'null')
            OR p_settings @? '$.handlers[*] ? (@.type() != "string")' THEN 'handlers is not a JSON array of names'
        WHEN jsonb_typeof(p_settings -> 'forgive') <> 'boolean' THEN 'forgive is not a boolean'
        WHEN jsonb_typeof(p_settings -> 'per') <> 'null' AND p_settings -> 'per' <> '"channel"' THEN
            'per is neither "channel" nor null'
        WHEN EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.name = p_name AND l.breaker_failures IS NOT NULL) THEN
            'it is a breaker (pgqueue_breaker_set)'
        WHEN p_name ~ '^limit [0-9]+, channel [0-9]+$' THEN 'names like this are of the limits of single channels'
        ELSE pgqueue_numbers_problem(p_settings, 'limit')
    END;
END;
$$;
