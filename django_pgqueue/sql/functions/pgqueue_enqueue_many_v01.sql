-- Enqueues many messages in one statement. Arrays pair up; NULL for an array means the default for all.
-- Caller: lifecycle.enqueue.
-- p_partial: enqueue every message that is not refused, even if others are; without it all or none. p_wait: as in
-- pgqueue_enqueue.
-- Returns one row for each message, in the order given, as pgqueue_enqueue does. All or none: if one is refused,
--   nothing is written, and those that could have been enqueued have the outcome withheld. Arrays that do not pair up:
--   one row, invalid.
-- Locks: as pgqueue_enqueue; channels with max_size in channel order, dedupe keys in order, so that callers cannot
--   deadlock.
CREATE FUNCTION pgqueue_enqueue_many(
    p_handlers text[],
    p_payloads jsonb[],
    p_channels text[] DEFAULT NULL,
    p_queues text[] DEFAULT NULL,
    p_bodies bytea[] DEFAULT NULL,
    p_headers jsonb[] DEFAULT NULL,
    p_priorities integer[] DEFAULT NULL,
    p_dequeue_ats timestamptz[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL,
    p_max_attempts integer[] DEFAULT NULL,
    p_backoffs interval[] DEFAULT NULL,
    p_backoff_factors double precision[] DEFAULT NULL,
    p_backoff_longests interval[] DEFAULT NULL,
    p_dedupe_keys text[] DEFAULT NULL,
    p_create_channel boolean DEFAULT false,
    p_partial boolean DEFAULT false,
    p_wait interval DEFAULT NULL
)
RETURNS TABLE (id bigint, outcome text, created_at timestamptz, dropped_ids bigint[], refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_lengths integer[] := ARRAY[
        cardinality(p_payloads), cardinality(p_channels), cardinality(p_queues), cardinality(p_bodies),
        cardinality(p_headers), cardinality(p_priorities), cardinality(p_dequeue_ats), cardinality(p_delays),
        cardinality(p_max_attempts), cardinality(p_backoffs), cardinality(p_backoff_factors),
        cardinality(p_backoff_longests), cardinality(p_dedupe_keys)];
    v_each boolean := p_partial OR p_dedupe_keys IS NOT NULL;
    v_channel record;
    v_row record;
    v_answer record;
    v_problem text;
    v_refusal jsonb;
    v_refusals jsonb := '{}';
    v_new text[] := '{}';
    v_ids bigint[];
    v_outcomes text[];
    v_created_ats timestamptz[];
    v_droppers bigint[] := '{}';
    v_dropped text[];
    v_details jsonb[];
BEGIN
    IF (coalesce(cardinality(p_handlers), 0) = ALL (v_lengths)) IS FALSE THEN
        v_problem := pgqueue_unpaired('p_handlers', cardinality(p_handlers),
            ARRAY['p_payloads', 'p_channels', 'p_queues', 'p_bodies', 'p_headers', 'p_priorities', 'p_dequeue_ats',
                'p_delays', 'p_max_attempts', 'p_backoffs', 'p_backoff_factors', 'p_backoff_longests',
                'p_dedupe_keys'], v_lengths);
        RETURN QUERY SELECT NULL::bigint, 'invalid', NULL::timestamptz, NULL::bigint[],
            pgqueue_refusal('PGQ07', 'invalid messages: ' || v_problem);
        RETURN;
    END IF;

    -- All or none: every refusal is found before anything is written. Every channel is locked once, in the order of all
    -- enqueuers.
    FOR v_channel IN
        SELECT n.queue, n.channel, n.messages, c.id, c.max_size, c.full_policy, c.released_at,
            c.max_size IS NOT NULL AND c.full_policy IN ('drop_oldest', 'replace') AS drops,
            bool_or(c.max_size IS NOT NULL AND c.full_policy IN ('drop_oldest', 'replace')) OVER () AS some_drop
        FROM (
            SELECT coalesce(u.queue, 'default') AS queue, coalesce(u.channel, 'default') AS channel,
                count(*) AS messages
            FROM unnest(p_handlers, p_channels, p_queues) AS u (handler, channel, queue)
            GROUP BY 1, 2
        ) AS n
        LEFT JOIN pgqueue_channel AS c ON c.queue = n.queue AND c.name = n.channel
        ORDER BY c.id, n.queue, n.channel
    LOOP
        -- A channel that drops locks messages: all counts are locked before.
        IF p_partial AND v_channel.some_drop AND v_channel.max_size IS NOT NULL AND v_channel.released_at IS NULL THEN
            PERFORM pgqueue_reserve(v_channel.id, v_channel.max_size, 0, p_wait);
        END IF;
        CONTINUE WHEN p_partial;
        CONTINUE WHEN v_channel.id IS NOT NULL AND v_channel.max_size IS NULL AND v_channel.released_at IS NULL;
        v_each := v_each OR v_channel.max_size IS NOT NULL AND v_channel.full_policy <> 'error';
        IF v_channel.id IS NULL THEN
            v_new := v_new || ARRAY[ARRAY[v_channel.queue, v_channel.channel]];
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
            v_refusals := v_refusals || jsonb_build_object(jsonb_build_array(v_channel.queue, v_channel.channel)::text,
                v_refusal);
        END IF;
    END LOOP;
    -- Messages are locked after all counts, so that no caller waits for a count while it holds messages. One place is
    -- enough: each message leaves for the next.
    FOR v_channel IN
        SELECT c.id, c.queue, c.name, c.max_size, c.full_policy FROM pgqueue_channel AS c
        WHERE c.id = ANY (v_droppers) AND v_refusals = '{}'
        ORDER BY c.id
    LOOP
        v_refusal := (pgqueue_admit(v_channel.id, v_channel.max_size, v_channel.full_policy, 1, p_wait)).refusal;
        IF v_refusal IS NOT NULL THEN
            v_refusals := v_refusals || jsonb_build_object(jsonb_build_array(v_channel.queue, v_channel.name)::text,
                v_refusal);
        END IF;
    END LOOP;
    SELECT min(pgqueue_validate(
        u.handler, u.payload, u.body, u.headers, coalesce(u.priority, 0), u.dequeue_at, u.delay,
        coalesce(u.max_attempts, 5), u.backoff, u.backoff_factor, u.backoff_longest, u.dedupe_key))
    INTO v_problem
    FROM unnest(p_handlers, p_payloads, p_bodies, p_headers, p_priorities, p_dequeue_ats, p_delays, p_max_attempts,
        p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys)
        AS u (handler, payload, body, headers, priority, dequeue_at, delay, max_attempts, backoff, backoff_factor,
            backoff_longest, dedupe_key)
    WHERE p_partial IS NOT TRUE;
    IF v_problem IS NOT NULL OR v_refusals <> '{}' THEN
        RETURN QUERY
        SELECT NULL::bigint, coalesce(r.refusal ->> 'outcome', 'withheld'), NULL::timestamptz, NULL::bigint[], r.refusal
        FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats,
            p_delays, p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys) WITH ORDINALITY
            AS u (handler, payload, channel, queue, body, headers, priority, dequeue_at, delay, max_attempts, backoff,
                backoff_factor, backoff_longest, dedupe_key, place)
        CROSS JOIN LATERAL (
            SELECT pgqueue_validate(
                u.handler, u.payload, u.body, u.headers, coalesce(u.priority, 0), u.dequeue_at, u.delay,
                coalesce(u.max_attempts, 5), u.backoff, u.backoff_factor, u.backoff_longest, u.dedupe_key) AS problem
        ) AS v
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN v.problem IS NOT NULL THEN pgqueue_refusal('PGQ07', 'invalid message: ' || v.problem)
                ELSE v_refusals -> jsonb_build_array(coalesce(u.queue, 'default'), coalesce(u.channel, 'default'))::text
            END AS refusal
        ) AS r
        ORDER BY u.place;
        RETURN;
    END IF;
    FOR v_place IN 1..coalesce(array_length(v_new, 1), 0) LOOP
        PERFORM pgqueue_raise(m.refusal)
        FROM pgqueue_missing_channel(v_new[v_place][1], v_new[v_place][2], p_create_channel) AS m;
    END LOOP;

    -- Enqueues one by one where each message has an answer of its own, in an order that all callers share.
    IF v_each THEN
        FOR v_row IN
            SELECT u.*
            FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats,
                p_delays, p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys)
                WITH ORDINALITY
                AS u (handler, payload, channel, queue, body, headers, priority, dequeue_at, delay, max_attempts,
                    backoff, backoff_factor, backoff_longest, dedupe_key, place)
            LEFT JOIN pgqueue_channel AS c ON c.queue = coalesce(u.queue, 'default')
                AND c.name = coalesce(u.channel, 'default')
            ORDER BY c.id, u.queue, u.channel, u.dedupe_key, u.place
        LOOP
            SELECT e.* INTO v_answer
            FROM pgqueue_enqueue(
                v_row.handler, v_row.payload, coalesce(v_row.channel, 'default'), coalesce(v_row.queue, 'default'),
                v_row.body, v_row.headers, coalesce(v_row.priority, 0), v_row.dequeue_at, v_row.delay,
                coalesce(v_row.max_attempts, 5), v_row.backoff, v_row.backoff_factor, v_row.backoff_longest,
                v_row.dedupe_key, p_create_channel, p_wait) AS e;
            IF p_partial IS NOT TRUE THEN
                -- This happens only where a duplicate was settled since it was counted.
                PERFORM pgqueue_raise(v_answer.refusal);
            END IF;
            v_ids[v_row.place] := v_answer.id;
            v_outcomes[v_row.place] := v_answer.outcome;
            v_created_ats[v_row.place] := v_answer.created_at;
            v_dropped[v_row.place] := v_answer.dropped_ids::text;
            v_details[v_row.place] := v_answer.refusal;
        END LOOP;
        RETURN QUERY
        SELECT u.id, u.outcome, u.created_at, u.dropped::bigint[], u.refusal
        FROM unnest(v_ids, v_outcomes, v_created_ats, v_dropped, v_details) WITH ORDINALITY
            AS u (id, outcome, created_at, dropped, refusal, place)
        ORDER BY u.place;
        RETURN;
    END IF;

    RETURN QUERY
    -- Pairs up the arrays, and looks up the channels.
    WITH input AS MATERIALIZED (
        SELECT u.*, c.id AS channel_id, coalesce(u.dequeue_at, v_now + coalesce(u.delay, '0')) AS due_at
        FROM (
            SELECT nextval('pgqueue_message_id_seq') AS id, n.*
            FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats,
                p_delays, p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests) WITH ORDINALITY
                AS n (handler, payload, channel, queue, body, headers, priority, dequeue_at, delay, max_attempts,
                    backoff, backoff_factor, backoff_longest, place)
        ) AS u
        LEFT JOIN pgqueue_channel AS c ON c.queue = coalesce(u.queue, 'default')
            AND c.name = coalesce(u.channel, 'default')
    ),
    -- Inserts the messages in the order given.
    enqueued AS (
        INSERT INTO pgqueue_message (
            id, channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff,
            backoff_factor, backoff_longest, created_at)
        SELECT i.id, i.channel_id, i.handler, coalesce(i.payload, 'null'), i.body, i.headers, coalesce(i.priority, 0),
            i.due_at,
            CASE WHEN i.due_at > v_now THEN 3 ELSE 1 END, coalesce(i.max_attempts, 5), i.backoff, i.backoff_factor,
            i.backoff_longest, v_now
        FROM input AS i
        ORDER BY i.place
    )
    SELECT i.id, 'created'::text, v_now, NULL::bigint[], NULL::jsonb FROM input AS i ORDER BY i.place;
END;
$$;
