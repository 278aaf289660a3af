-- Settles leased messages as dead letters: moves them to pgqueue_dead_letter with a reason, in one statement.
-- p_reasons: short words, by convention rejected | unknown_handler | failed | poison | timed_out or the handler's
--   own. p_details: a JSON object for each message.
-- p_ran_seconds: how many seconds the handler of each message ran; NULL: unknown. The dead letter's started_at follows
--   from it.
-- Returns the ids. A lost lease raises PGQ02. With p_skip_lost it is left out, except for messages that this lease has
--   settled before.
-- An ordered channel with on_dead = pause is paused.
-- Locks: the messages (lock order, step 2), in the order of ids; and as pgqueue_pause_at_dead.
-- Errors: PGQ02, PGQ07 arrays that do not pair up.
CREATE FUNCTION pgqueue_dead_letter(
    p_ids bigint[],
    p_tokens uuid[],
    p_reasons text[],
    p_details jsonb[] DEFAULT NULL,
    p_skip_lost boolean DEFAULT false,
    p_ran_seconds double precision[] DEFAULT NULL
)
RETURNS SETOF bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_done bigint[];
    v_limited bigint[];
    v_stopped bigint[];
    v_stopping bigint[];
    v_keys pgqueue_order_note[];
    v_flows bigint[];
    v_members bigint[];
BEGIN
    IF cardinality(p_tokens) <> cardinality(p_ids) OR cardinality(p_reasons) <> cardinality(p_ids)
        OR cardinality(p_details) <> cardinality(p_ids) OR cardinality(p_ran_seconds) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens', 'p_reasons', 'p_details', 'p_ran_seconds'],
            ARRAY[cardinality(p_tokens), cardinality(p_reasons), cardinality(p_details),
                cardinality(p_ran_seconds)])));
    END IF;
    -- Deletes the messages that the caller still holds.
    WITH settled AS (
        DELETE FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.*, p_reasons[array_position(p_ids, m.id)] AS reason,
            p_details[array_position(p_ids, m.id)] AS details,
            pgqueue_started_at(v_now, m.leased_at, p_ran_seconds[array_position(p_ids, m.id)]) AS started_at
    ),
    -- Inserts the dead letters, by a left join: a message must not vanish because its channel was deleted.
    buried AS (
        INSERT INTO pgqueue_dead_letter (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, backoff,
            backoff_factor, backoff_longest, created_at, dequeue_at,
            leased_at, lease_token, dead_at, reason, details, state, errors, dedupe_key, worker, redriven_from, limits,
            cost, started_at, order_key, order_place)
        SELECT n.id, coalesce(c.queue, ''), coalesce(c.name, ''), n.handler, n.payload, n.body, n.headers, n.priority,
            n.attempts, n.max_attempts, n.backoff, n.backoff_factor, n.backoff_longest, n.created_at, n.dequeue_at,
            n.leased_at, n.lease_token, v_now, left(coalesce(n.reason, 'rejected'), 200), n.details, n.state, n.errors,
            n.dedupe_key, n.worker, n.redriven_from, n.limits, n.cost, n.started_at, n.order_key,
            n.order_place
        FROM settled AS n
        LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
    )
    SELECT array_agg(n.id),
        array_agg(n.channel_id) FILTER (WHERE c.max_concurrency IS NOT NULL OR c.max_size IS NOT NULL
            OR c.release_interval IS NOT NULL OR n.limits IS NOT NULL
            OR EXISTS (SELECT FROM pgqueue_limit_handler AS h WHERE h.handler = n.handler AND NOT h.breaker)
            OR EXISTS (SELECT FROM pgqueue_queue AS q
                WHERE q.name = c.queue AND (q.max_concurrency IS NOT NULL OR q.max_share IS NOT NULL))),
        array_agg(n.channel_id ORDER BY n.id) FILTER (WHERE c.ordered AND c.on_dead = 'pause'),
        array_agg(n.id ORDER BY n.id) FILTER (WHERE c.ordered AND c.on_dead = 'pause'),
        array_agg(ROW(n.channel_id, n.order_key)::pgqueue_order_note) FILTER (WHERE n.order_key IS NOT NULL),
        array_agg(n.flow) FILTER (WHERE n.flow IS NOT NULL), array_agg(n.id) FILTER (WHERE n.flow IS NOT NULL)
    INTO v_done, v_limited, v_stopped, v_stopping, v_keys, v_flows, v_members
    FROM settled AS n
    LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id;
    IF NOT p_skip_lost AND coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_done);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM pgqueue_record_departures(v_limited);
    END IF;
    IF v_keys IS NOT NULL THEN
        PERFORM pgqueue_release_keys(v_keys, true);
    END IF;
    IF v_stopped IS NOT NULL THEN
        PERFORM pgqueue_pause_at_dead(v_stopped, v_stopping);
    END IF;
    IF v_flows IS NOT NULL THEN
        PERFORM pgqueue_flow_settled(v_flows, v_members, 'dead');
    END IF;
    RETURN QUERY SELECT unnest(v_done);
    IF coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        RETURN QUERY SELECT b.id FROM pgqueue_settled_before(p_ids, p_tokens, v_done) AS b;
    END IF;
END;
$$;
