-- Enqueues many messages in one statement. Arrays pair up; NULL for an array means the default for all.
-- p_payloads: NULL, or a NULL in it, is JSON's null. p_limits: for each message a JSON array of names. p_partial:
-- enqueue every message that is not refused, even if others are; without it all or none. p_wait: as in pgqueue_enqueue.
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
    p_wait interval DEFAULT NULL,
    p_limits jsonb[] DEFAULT NULL,
    p_costs integer[] DEFAULT NULL,
    p_order_keys text[] DEFAULT NULL
)
RETURNS TABLE (id bigint, outcome text, created_at timestamptz, dropped_ids bigint[], refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_lengths integer[] := ARRAY[cardinality(p_payloads), cardinality(p_channels), cardinality(p_queues),
        cardinality(p_bodies), cardinality(p_headers), cardinality(p_priorities), cardinality(p_dequeue_ats),
        cardinality(p_delays), cardinality(p_max_attempts), cardinality(p_backoffs), cardinality(p_backoff_factors),
        cardinality(p_backoff_longests), cardinality(p_dedupe_keys), cardinality(p_limits), cardinality(p_costs),
        cardinality(p_order_keys)];
    v_look record;
    v_refused boolean;
    v_ids jsonb;
    v_requests pgqueue_request[];
BEGIN
    IF (coalesce(cardinality(p_handlers), 0) = ALL (v_lengths)) IS FALSE THEN
        RETURN QUERY SELECT NULL::bigint, 'invalid', NULL::timestamptz, NULL::bigint[],
            pgqueue_refusal('PGQ07', 'invalid messages: ' || pgqueue_unpaired('p_handlers', cardinality(p_handlers),
                ARRAY['p_payloads', 'p_channels', 'p_queues', 'p_bodies', 'p_headers', 'p_priorities', 'p_dequeue_ats',
                    'p_delays', 'p_max_attempts', 'p_backoffs', 'p_backoff_factors', 'p_backoff_longests',
                    'p_dedupe_keys', 'p_limits', 'p_costs', 'p_order_keys'], v_lengths));
        RETURN;
    END IF;
    v_look := pgqueue_enqueue_look(
        p_handlers, p_channels, p_queues, p_dedupe_keys, p_create_channel, p_partial, p_wait);
    v_refused := v_look.refusals <> '{}';
    v_ids := v_look.ids;
    IF v_refused OR p_partial THEN
        NULL;
    ELSIF num_nonnulls(p_bodies, p_headers, p_dequeue_ats, p_delays, p_backoffs, p_backoff_factors, p_backoff_longests,
        p_dedupe_keys, p_limits, p_costs, p_order_keys) = 0 AND pg_column_size(p_payloads) < 67108864
    THEN
        -- Most calls give few of the arrays: then only those are looked at. Payloads that are together smaller than the
        -- largest message need no look.
        v_refused := (SELECT min(pgqueue_validate(u.handler, NULL, NULL, NULL, coalesce(u.priority, 0), NULL, NULL,
            coalesce(u.max_attempts, 5), NULL, NULL, NULL, NULL)) IS NOT NULL
        FROM unnest(p_handlers, p_priorities, p_max_attempts) AS u (handler, priority, max_attempts));
    ELSE
        v_refused := (SELECT min(pgqueue_validate(u.handler, u.payload, u.body, u.headers, coalesce(u.priority, 0),
            u.dequeue_at, u.delay, coalesce(u.max_attempts, 5), u.backoff, u.backoff_factor, u.backoff_longest,
            u.dedupe_key)) IS NOT NULL OR bool_or(num_nonnulls(u.limits, u.cost, u.order_key) > 0
                AND pgqueue_metering_problem(u.limits, u.cost, u.order_key, coalesce(u.queue, 'default'),
                    coalesce(u.channel, 'default'), u.handler) IS NOT NULL)
        FROM unnest(p_handlers, p_payloads, p_bodies, p_headers, p_priorities, p_dequeue_ats, p_delays, p_max_attempts,
            p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys, p_limits, p_costs, p_order_keys, p_queues,
            p_channels) AS u
            (handler, payload, body, headers, priority, dequeue_at, delay, max_attempts, backoff, backoff_factor,
            backoff_longest, dedupe_key, limits, cost, order_key, queue, channel));
    END IF;
    FOR v_place IN 1..CASE WHEN v_refused THEN 0 ELSE cardinality(v_look.missing) / 2 END LOOP
        PERFORM pgqueue_raise(m.refusal)
        FROM pgqueue_missing_channel(v_look.missing[v_place][1], v_look.missing[v_place][2], p_create_channel) AS m;
    END LOOP;
    IF v_refused OR v_look.singly THEN
        v_requests := ARRAY(
            SELECT ROW(u.place, u.handler, u.payload, coalesce(u.channel, 'default'), coalesce(u.queue, 'default'),
                u.body, u.headers, coalesce(u.priority, 0), u.dequeue_at, u.delay, coalesce(u.max_attempts, 5),
                u.backoff, u.backoff_factor, u.backoff_longest, u.dedupe_key, u.limits, u.cost,
                u.order_key)::pgqueue_request
            FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats,
                p_delays, p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys, p_limits,
                p_costs, p_order_keys) WITH ORDINALITY AS u (handler, payload, channel, queue, body, headers, priority,
                    dequeue_at, delay, max_attempts, backoff, backoff_factor, backoff_longest, dedupe_key, limits, cost,
                    order_key, place));
        IF v_refused THEN
            -- Nothing is written: each message has its refusal, or is withheld.
            RETURN QUERY
            SELECT NULL::bigint, coalesce(r.refusal ->> 'outcome', 'withheld'), NULL::timestamptz, NULL::bigint[],
                r.refusal
            FROM unnest(v_requests) AS u
            CROSS JOIN LATERAL (
                SELECT coalesce(pgqueue_validate(
                    u.handler, u.payload, u.body, u.headers, u.priority, u.dequeue_at, u.delay, u.max_attempts,
                    u.backoff, u.backoff_factor, u.backoff_longest, u.dedupe_key),
                    pgqueue_metering_problem(u.limits, u.cost, u.order_key, u.queue, u.channel, u.handler)) AS problem
            ) AS v
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN v.problem IS NOT NULL THEN pgqueue_refusal('PGQ07', 'invalid message: ' || v.problem)
                    ELSE v_look.refusals -> jsonb_build_array(u.queue, u.channel)::text
                END AS refusal
            ) AS r
            ORDER BY u.place;
            RETURN;
        END IF;
        RETURN QUERY
        SELECT e.* FROM pgqueue_enqueue_each(v_requests, p_create_channel, p_partial, p_wait) AS e;
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO pgqueue_message (
        channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff,
        backoff_factor, backoff_longest, created_at, limits, cost, waits_for, order_key)
    SELECT i.channel_id, i.handler, coalesce(i.payload, 'null'), i.body, i.headers, coalesce(i.priority, 0), i.due_at,
        CASE WHEN i.due_at > v_now OR i.waits_for IS NOT NULL THEN 3 ELSE 1 END, coalesce(i.max_attempts, 5),
        i.backoff, i.backoff_factor, i.backoff_longest, v_now, i.limit_ids, i.cost,
        CASE WHEN i.due_at <= v_now THEN i.waits_for END, i.order_key
    FROM (
        SELECT u.*, coalesce(u.dequeue_at, v_now + u.delay, v_now) AS due_at,
            CASE WHEN u.limits IS NOT NULL THEN pgqueue_limit_ids(u.limits) END AS limit_ids,
            CASE WHEN u.limits IS NOT NULL THEN pgqueue_waits_for(u.channel_id, pgqueue_limit_ids(u.limits)) END
                AS waits_for
        FROM (
            SELECT u.*, CASE WHEN v_ids IS NULL THEN (SELECT c.id FROM pgqueue_channel AS c
                WHERE c.queue = coalesce(u.queue, 'default') AND c.name = coalesce(u.channel, 'default'))
                ELSE (v_ids ->> coalesce(u.channel, 'default'))::bigint END AS channel_id
            -- The rows of a function come in the order of its arrays.
            FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats,
                p_delays, p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests, p_limits, p_costs,
                p_order_keys) AS u (handler, payload, channel, queue, body, headers, priority, dequeue_at, delay,
                    max_attempts, backoff, backoff_factor, backoff_longest, limits, cost, order_key)
        ) AS u
    ) AS i
    RETURNING pgqueue_message.id, 'created'::text, v_now, NULL::bigint[], NULL::jsonb;
END;
$$;
