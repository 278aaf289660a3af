-- Returns the error in the name or the limits of a channel; NULL when both are valid.
-- p_limits: as in pgqueue_channel_set.
-- Locks: none.
CREATE FUNCTION pgqueue_channel_problem(p_queue text, p_channel text, p_limits jsonb DEFAULT '{}')
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_known text[] := ARRAY['max_concurrency', 'max_size', 'full_policy', 'release_interval', 'release_burst', 'weight',
        'archive', 'ordered', 'on_dead', 'context', 'forgive'];
BEGIN
    IF coalesce(p_channel, '') = '' OR length(p_channel) > 200 THEN
        RETURN 'its name takes 1 to 200 characters';
    ELSIF coalesce(p_queue, '') = '' OR length(p_queue) > 100 THEN
        RETURN 'the name of its queue takes 1 to 100 characters';
    ELSIF jsonb_typeof(p_limits) <> 'object' THEN
        RETURN 'the limits are not a JSON object';
    ELSIF p_limits - v_known <> '{}' THEN
        RETURN format('unknown limits %s; known are %s', p_limits - v_known, v_known);
    ELSIF p_limits ->> 'full_policy' NOT IN ('error', 'drop', 'drop_oldest', 'replace') THEN
        RETURN 'full_policy is neither error, drop, drop_oldest nor replace';
    ELSIF p_limits ->> 'on_dead' NOT IN ('continue', 'pause') THEN
        RETURN 'on_dead is neither continue nor pause';
    ELSIF jsonb_typeof(p_limits -> 'context') <> 'object' THEN
        RETURN format('its context is not a JSON object but of the kind %s', jsonb_typeof(p_limits -> 'context'));
    ELSIF jsonb_typeof(p_limits -> 'forgive') <> 'boolean' THEN
        RETURN 'forgive is not a boolean';
    ELSIF jsonb_typeof(p_limits -> 'ordered') NOT IN ('boolean', 'null') THEN
        RETURN format('ordered is not a boolean but %s', left(p_limits ->> 'ordered', 100));
    ELSIF p_limits -> 'max_concurrency' <> '1' AND (p_limits -> 'ordered' = 'true'
        OR p_limits -> 'ordered' IS DISTINCT FROM 'false' AND EXISTS (
            SELECT FROM pgqueue_channel AS c
            WHERE c.queue = p_queue AND c.name = p_channel AND c.ordered AND c.released_at IS NULL)) THEN
        RETURN 'it is ordered: its max_concurrency is 1';
    ELSIF pgqueue_archive_problem(p_limits ->> 'archive') IS NOT NULL THEN
        RETURN pgqueue_archive_problem(p_limits ->> 'archive');
    END IF;
    RETURN pgqueue_numbers_problem(p_limits, 'channel');
END;
$$;
