-- Finds the channels of a bulk enqueue that cannot take their messages, before anything is written, and locks the
-- counts of those with a max_size, each once and in the order of all enqueuers.
-- The parameters are those of pgqueue_enqueue_many. With p_partial only counts are locked: each message is decided by
-- itself.
-- Returns refusals: by queue and channel, as a JSON array in text; missing: queue and channel of those to be created;
--   singly: each message needs an answer of its own; ids: the ids of the channels by their names, if all exist and are
--   of one queue: a look-up there costs a fifth of one in the table; else NULL.
-- Locks: as pgqueue_enqueue_many.
CREATE FUNCTION pgqueue_enqueue_look(
    p_handlers text[],
    p_channels text[],
    p_queues text[],
    p_dedupe_keys text[],
    p_create_channel boolean,
    p_partial boolean,
    p_wait interval,
    OUT refusals jsonb,
    OUT missing text[],
    OUT singly boolean,
    OUT ids jsonb
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_channel record;
    v_refusal jsonb;
    v_droppers bigint[] := '{}';
BEGIN
    refusals := '{}';
    missing := '{}';
    singly := p_partial OR p_dedupe_keys IS NOT NULL;
    FOR v_channel IN
        SELECT n.queue, n.channel, n.messages, c.id, c.max_size, c.full_policy, c.released_at,
            c.max_size IS NOT NULL AND c.full_policy IN ('drop_oldest', 'replace') AS drops,
            bool_or(c.max_size IS NOT NULL AND c.full_policy IN ('drop_oldest', 'replace')) OVER () AS some_drop,
            -- In one row only, because each one would be a copy.
            CASE WHEN row_number() OVER () = 1 AND min(n.queue) OVER () = max(n.queue) OVER ()
                THEN jsonb_object_agg(n.channel, c.id) OVER () END AS ids
        FROM (
            SELECT coalesce(u.queue, 'default') AS queue, coalesce(u.channel, 'default') AS channel,
                count(*) AS messages
            FROM unnest(CASE WHEN num_nonnulls(p_channels, p_queues) = 0 THEN p_handlers END, p_channels, p_queues)
                AS u (handler, channel, queue)
            GROUP BY 1, 2
        ) AS n
        LEFT JOIN pgqueue_channel AS c ON c.queue = n.queue AND c.name = n.channel
        ORDER BY c.id, n.queue, n.channel
    LOOP
        ids := coalesce(ids, v_channel.ids);
        -- A channel that drops locks messages: all counts are locked before.
        IF p_partial AND v_channel.some_drop AND v_channel.max_size IS NOT NULL AND v_channel.released_at IS NULL THEN
            PERFORM pgqueue_reserve(v_channel.id, v_channel.max_size, 0, p_wait);
        END IF;
        CONTINUE WHEN p_partial;
        CONTINUE WHEN v_channel.id IS NOT NULL AND v_channel.max_size IS NULL AND v_channel.released_at IS NULL;
        singly := singly OR v_channel.max_size IS NOT NULL AND v_channel.full_policy <> 'error';
        IF v_channel.id IS NULL THEN
            missing := missing || ARRAY[ARRAY[v_channel.queue, v_channel.channel]];
        ELSIF p_dedupe_keys IS NOT NULL THEN
            -- Duplicates take no room.
            SELECT count(*) FILTER (WHERE u.dedupe_key IS NULL) + count(DISTINCT u.dedupe_key) FILTER (
                WHERE NOT EXISTS (SELECT FROM pgqueue_message AS m
                    WHERE m.channel_id = v_channel.id AND m.dedupe_key = u.dedupe_key))
            INTO v_channel.messages
            FROM unnest(p_handlers, p_channels, p_queues, p_dedupe_keys) AS u (handler, channel, queue, dedupe_key)
            WHERE coalesce(u.queue, 'default') = v_channel.queue AND coalesce(u.channel, 'default') = v_channel.channel;
        END IF;
        IF v_channel.drops AND v_channel.messages > 0 THEN
            v_droppers := v_droppers || v_channel.id;
        END IF;
        v_refusal := pgqueue_enqueue_check(v_channel.queue, v_channel.channel, v_channel.messages, p_create_channel,
            true, p_wait);
        IF v_refusal IS NOT NULL THEN
            refusals := refusals || jsonb_build_object(jsonb_build_array(v_channel.queue, v_channel.channel)::text,
                v_refusal);
        END IF;
    END LOOP;
    ids := CASE WHEN missing = '{}' THEN ids END;
    -- Messages are locked after all counts, so that no caller waits for a count while it holds messages. One place is
    -- enough: each message leaves for the next.
    FOR v_channel IN
        SELECT c.id, c.queue, c.name, c.max_size, c.full_policy FROM pgqueue_channel AS c
        WHERE c.id = ANY (v_droppers) AND refusals = '{}'
        ORDER BY c.id
    LOOP
        v_refusal := (pgqueue_admit(v_channel.id, v_channel.max_size, v_channel.full_policy, 1, p_wait)).refusal;
        IF v_refusal IS NOT NULL THEN
            refusals := refusals || jsonb_build_object(jsonb_build_array(v_channel.queue, v_channel.name)::text,
                v_refusal);
        END IF;
    END LOOP;
END;
$$;
