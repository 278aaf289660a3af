-- Creates a channel, or changes the limits that p_limits names. A released channel of the name makes room for a new
-- one: limits, context, pause and place in the line begin anew, because the name may now belong to another tenant.
-- p_limits: {"max_concurrency", "max_size", "full_policy", "release_interval", "release_burst", "weight"}, null lifts a
-- limit; "archive": full | outcome | none, null: the queue's setting applies; "ordered": true sets max_concurrency to
-- 1, which stays when it becomes false; "on_dead": continue | pause. Beside the limits: "context", an object, which
-- replaces the context of the channel; "forgive": true ends the debt of its rate.
-- Returns the channel's id and created or changed; or the refusal: PGQ05 the released channel still drains, PGQ07
--   invalid channel. The change holds from the next dequeue on.
-- Locks: the channel's own row.
CREATE FUNCTION pgqueue_channel_set(
    p_queue text,
    p_channel text,
    p_limits jsonb DEFAULT '{}',
    OUT id bigint,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    v_problem text := pgqueue_channel_problem(p_queue, p_channel, p_limits);
    v_ordered boolean;
    v_released record;
BEGIN
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid channel: ' || v_problem);
    ELSE
        -- A released channel that has drained frees its name. Its row stays until pgqueue_remove_released finds it
        -- safe: an enqueue that has looked it up and is not committed yet must meet its context, not that of a new
        -- tenant.
        SELECT c.id, pgqueue_count_live(c.id) AS live INTO v_released FROM pgqueue_channel AS c
        WHERE c.queue = p_queue AND c.name = p_channel AND c.released_at IS NOT NULL;
        IF v_released.live > 0 THEN
            refusal := pgqueue_refusal('PGQ05',
                format('channel "%s" of queue "%s" was released and still drains %s message(s)', p_channel, p_queue,
                    v_released.live),
                'Wait until they are settled, or purge the channel. '
                'To take the release back, set released_at to NULL.');
        ELSIF FOUND THEN
            UPDATE pgqueue_channel AS c SET name = format('%s (released %s)', left(c.name, 160), c.id)
            WHERE c.id = v_released.id AND c.queue = p_queue AND c.name = p_channel AND c.released_at IS NOT NULL;
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    v_ordered := (p_limits ->> 'ordered')::boolean;
    INSERT INTO pgqueue_channel (
        queue, name, max_concurrency, max_size, full_policy, release_interval, release_burst, weight, archive, ordered,
        on_dead, context)
    VALUES (
        p_queue, p_channel, CASE WHEN v_ordered THEN 1 ELSE (p_limits ->> 'max_concurrency')::numeric END,
        (p_limits ->> 'max_size')::numeric,
        coalesce(p_limits ->> 'full_policy', 'error'), (p_limits ->> 'release_interval')::interval,
        coalesce((p_limits ->> 'release_burst')::numeric, 1), coalesce((p_limits ->> 'weight')::numeric, 1),
        p_limits ->> 'archive', coalesce(v_ordered, false), coalesce(p_limits ->> 'on_dead', 'continue'),
        coalesce(p_limits -> 'context', '{}'))
    ON CONFLICT (queue, name) DO NOTHING
    RETURNING pgqueue_channel.id INTO id;
    IF FOUND THEN
        outcome := 'created';
        RETURN;
    END IF;
    outcome := 'changed';
    SELECT c.id INTO id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel;
    UPDATE pgqueue_channel AS c
    SET max_concurrency = CASE WHEN v_ordered THEN 1
            WHEN p_limits ? 'max_concurrency' THEN (p_limits ->> 'max_concurrency')::numeric
            ELSE c.max_concurrency END,
        max_size = CASE WHEN p_limits ? 'max_size' THEN (p_limits ->> 'max_size')::numeric ELSE c.max_size END,
        full_policy = coalesce(p_limits ->> 'full_policy', c.full_policy),
        release_interval = CASE
            WHEN p_limits ? 'release_interval' THEN (p_limits ->> 'release_interval')::interval ELSE c.release_interval
        END,
        release_burst = coalesce((p_limits ->> 'release_burst')::numeric, c.release_burst),
        weight = coalesce((p_limits ->> 'weight')::numeric, c.weight),
        archive = CASE WHEN p_limits ? 'archive' THEN p_limits ->> 'archive' ELSE c.archive END,
        ordered = coalesce(v_ordered, c.ordered),
        on_dead = coalesce(p_limits ->> 'on_dead', c.on_dead),
        context = coalesce(p_limits -> 'context', c.context)
    WHERE c.queue = p_queue AND c.name = p_channel AND p_limits <> '{}';
    PERFORM pgqueue_forgive(p_channel_id => pgqueue_channel_set.id) WHERE p_limits -> 'forgive' = 'true';
END;
$$;
