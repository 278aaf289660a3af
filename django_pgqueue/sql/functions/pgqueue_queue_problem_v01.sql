-- Returns the error in the settings of a queue; NULL when all are valid.
-- p_settings: as in pgqueue_queue_set.
-- Locks: none.
CREATE FUNCTION pgqueue_queue_problem(p_settings jsonb)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_known text[] := ARRAY['archive', 'events', 'retention', 'dead_letter_retention', 'max_concurrency',
        'release_interval', 'release_burst', 'fairness', 'max_share', 'forgive'];
    v_limits jsonb;
BEGIN
    IF jsonb_typeof(p_settings) IS DISTINCT FROM 'object' THEN
        RETURN 'the settings are not a JSON object';
    ELSIF p_settings - v_known <> '{}' THEN
        RETURN format('unknown settings %s; known are %s', left((p_settings - v_known)::text, 100), v_known);
    ELSIF coalesce(p_settings -> 'events', 'null') NOT IN ('true', 'false', 'null') THEN
        RETURN format('events is %s: it takes true or false', left(p_settings ->> 'events', 100));
    ELSIF jsonb_typeof(p_settings -> 'forgive') <> 'boolean' THEN
        RETURN 'forgive is not a boolean';
    ELSIF p_settings ->> 'fairness' NOT IN ('turns', 'share') THEN
        RETURN 'fairness is neither turns nor share';
    ELSIF coalesce(jsonb_typeof(p_settings -> 'max_share'), 'null') NOT IN ('number', 'null') THEN
        RETURN format('max_share is not a number but %s', left((p_settings -> 'max_share')::text, 100));
    ELSIF (p_settings ->> 'max_share')::numeric NOT BETWEEN 0.00001 AND 1 THEN
        RETURN format('max_share is not a part from 0.00001 to 1 but %s', left(p_settings ->> 'max_share', 100));
    END IF;
    -- These have the rules of a channel's limits.
    v_limits := jsonb_strip_nulls(jsonb_build_object('max_concurrency', p_settings -> 'max_concurrency',
        'release_interval', p_settings -> 'release_interval', 'release_burst', p_settings -> 'release_burst'));
    RETURN coalesce(
        pgqueue_archive_problem(p_settings ->> 'archive'),
        pgqueue_retention_problem('retention', p_settings ->> 'retention'),
        pgqueue_retention_problem('dead_letter_retention', p_settings ->> 'dead_letter_retention'),
        replace(pgqueue_channel_problem('queue', 'queue', v_limits), 'pause the channel', 'pause the queue'));
END;
$$;
