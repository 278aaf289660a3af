-- Creates a channel or changes the limits that are named; opens a released channel again.
-- Caller: anyone. p_limits: {"max_concurrency", "max_size", "full_policy", "release_interval", "release_burst", "weight"}, null lifts a limit.
-- Returns the channel's id. The change holds from the next dequeue on. Locks: the channel's own row. Errors: PGQ07 invalid channel.
CREATE FUNCTION pgqueue_channel_set(p_name text, p_queue text DEFAULT 'default', p_limits jsonb DEFAULT '{}')
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_known text[] := ARRAY['max_concurrency', 'max_size', 'full_policy', 'release_interval', 'release_burst', 'weight'];
    v_id bigint;
    v_problem text;
BEGIN
    v_problem := CASE
        WHEN coalesce(p_name, '') = '' OR length(p_name) > 200 THEN 'its name takes 1 to 200 characters'
        WHEN coalesce(p_queue, '') = '' OR length(p_queue) > 100 THEN 'the name of its queue takes 1 to 100 characters'
        WHEN p_limits - v_known <> '{}' THEN format('unknown limits %s; known are %s', p_limits - v_known, v_known)
        WHEN (p_limits ->> 'max_concurrency')::integer < 1 THEN 'max_concurrency is less than 1 (pause the channel instead)'
        WHEN (p_limits ->> 'max_size')::integer < 1 THEN 'max_size is less than 1 (release the channel instead)'
        WHEN p_limits ->> 'full_policy' NOT IN ('error', 'drop') THEN 'full_policy is neither error nor drop'
        WHEN (p_limits ->> 'release_interval')::interval <= '0' THEN 'release_interval is not positive'
        WHEN (p_limits ->> 'release_burst')::integer < 1 THEN 'release_burst is less than 1'
        WHEN (p_limits ->> 'weight')::integer NOT BETWEEN 1 AND 1000 THEN 'weight is not between 1 and 1000'
    END;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'invalid channel: %', v_problem USING ERRCODE = 'PGQ07';
    END IF;
    INSERT INTO pgqueue_channel (
        name, queue, max_concurrency, max_size, full_policy, release_interval, release_burst, weight)
    VALUES (
        p_name, p_queue, (p_limits ->> 'max_concurrency')::integer, (p_limits ->> 'max_size')::integer,
        coalesce(p_limits ->> 'full_policy', 'error'), (p_limits ->> 'release_interval')::interval,
        coalesce((p_limits ->> 'release_burst')::integer, 1), coalesce((p_limits ->> 'weight')::integer, 1))
    ON CONFLICT (queue, name) DO NOTHING
    RETURNING id INTO v_id;
    IF FOUND THEN
        RETURN v_id;
    END IF;
    SELECT c.id INTO v_id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_name;
    UPDATE pgqueue_channel AS c
    SET max_concurrency = CASE WHEN p_limits ? 'max_concurrency' THEN (p_limits ->> 'max_concurrency')::integer ELSE c.max_concurrency END,
        max_size = CASE WHEN p_limits ? 'max_size' THEN (p_limits ->> 'max_size')::integer ELSE c.max_size END,
        full_policy = coalesce(p_limits ->> 'full_policy', c.full_policy),
        release_interval = CASE
            WHEN p_limits ? 'release_interval' THEN (p_limits ->> 'release_interval')::interval ELSE c.release_interval
        END,
        release_burst = coalesce((p_limits ->> 'release_burst')::integer, c.release_burst),
        weight = coalesce((p_limits ->> 'weight')::integer, c.weight),
        released_at = NULL
    WHERE c.id = v_id AND (p_limits <> '{}' OR c.released_at IS NOT NULL);
    RETURN v_id;
END;
$$;
