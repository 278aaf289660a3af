-- Returns the error in the name or the limits of a channel; NULL when both are valid.
-- p_limits: as in pgqueue_channel_set.
-- Locks: none.
CREATE FUNCTION pgqueue_channel_problem(p_queue text, p_channel text, p_limits jsonb DEFAULT '{}')
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN CASE
        WHEN coalesce(p_channel, '') = '' OR length(p_channel) > 200 THEN 'its name takes 1 to 200 characters'
        WHEN coalesce(p_queue, '') = '' OR length(p_queue) > 100 THEN
            'the name of its queue takes 1 to 100 characters'
        WHEN p_limits = '{}' THEN NULL
        WHEN p_limits -> 'max_concurrency' <> '1' AND (p_limits -> 'ordered' = 'true'
            OR p_limits -> 'ordered' IS DISTINCT FROM 'false' AND EXISTS (
                SELECT FROM pgqueue_channel AS c
                WHERE c.queue = p_queue AND c.name = p_channel AND c.ordered AND c.released_at IS NULL))
            THEN 'it is ordered: its max_concurrency is 1'
        ELSE pgqueue_settings_problem('channel', coalesce(p_limits, '{}'))
    END;
END;
$$;
