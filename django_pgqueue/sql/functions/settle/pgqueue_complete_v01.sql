-- Settles leased messages as done: moves them to the archive. One message takes the short way here, every other call
-- the long way (pgqueue_archive).
-- p_ids and p_tokens pair up. p_cancelled: settle as cancelled; without a result, stores cancel_reason. p_archive: full
-- | outcome | none, overrides the setting of the channel (its column archive) and of the queue. outcome: the archive
-- keeps no payload, body, headers, result or saved state, and bare errors.
-- p_ran_seconds: how many seconds the handler of each message ran; NULL: unknown. started_at in the archive follows
--   from it.
-- Returns the ids that were completed. A lost lease raises PGQ02 and nothing is changed. With p_skip_lost it is left
--   out, except for messages that this lease has completed before, as far as they are archived.
-- Locks: the messages (lock order, step 2), in the order of ids.
-- Errors: PGQ02, PGQ07 arrays that do not pair up, or an invalid p_archive: raised, so that the writes that belong to
--   the messages cannot commit.
CREATE FUNCTION pgqueue_complete(
    p_ids bigint[],
    p_tokens uuid[],
    p_results jsonb[] DEFAULT NULL,
    p_skip_lost boolean DEFAULT false,
    p_cancelled boolean DEFAULT false,
    p_archive text DEFAULT NULL,
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
    v_one pgqueue_message;
    v_channel record;
    v_released integer;
    v_done bigint[];
BEGIN
    IF cardinality(p_tokens) <> cardinality(p_ids) OR cardinality(p_results) <> cardinality(p_ids)
        OR cardinality(p_ran_seconds) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens', 'p_results', 'p_ran_seconds'],
            ARRAY[cardinality(p_tokens), cardinality(p_results), cardinality(p_ran_seconds)])));
    END IF;
    IF p_archive NOT IN ('full', 'outcome', 'none') THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07',
            pgqueue_settings_problem('queue', jsonb_build_object('archive', p_archive))));
    END IF;
    IF cardinality(p_ids) = 1 AND NOT p_cancelled AND p_archive IS NULL THEN
        -- One message that is archived in full, the most frequent case: several short statements cost less than the
        -- large one.
        SELECT c.queue, c.name, c.max_concurrency IS NOT NULL OR c.max_size IS NOT NULL AS limited,
            -- 1: its handler has shared limits; 2: a breaker; 3: both.
            (SELECT bit_or(CASE WHEN h.breaker THEN 2 ELSE 1 END) FROM pgqueue_limit_handler AS h
            WHERE h.handler = m.handler) AS metered,
            -- 2: a queue has events, or does not archive in full; 1: this queue has a limit. One look for both.
            (
                SELECT max(CASE WHEN q.events OR q.archive <> 'full' THEN 2 WHEN q.name = c.queue THEN 1 END)
                FROM pgqueue_queue AS q
                WHERE q.events OR q.archive <> 'full' OR q.max_concurrency IS NOT NULL OR q.max_share IS NOT NULL
            ) AS special
        INTO v_channel
        FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
        WHERE c.archive IS NULL
            AND m.id = p_ids[1];
        IF FOUND AND v_channel.special IS DISTINCT FROM 2 THEN
            DELETE FROM pgqueue_message AS m WHERE m.id = p_ids[1] AND m.lease_token = p_tokens[1]
            RETURNING m.* INTO v_one;
        END IF;
        IF v_one.id IS NOT NULL THEN
            INSERT INTO pgqueue_archived_message (
                id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
                dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
                redriven_from, started_at, order_key, limits, cost)
            VALUES (
                v_one.id, v_channel.queue, v_channel.name, v_one.handler, v_one.payload, v_one.body, v_one.headers,
                v_one.priority, v_one.attempts, v_one.max_attempts, v_one.created_at, v_one.dequeue_at, v_one.leased_at,
                v_one.lease_token, v_now, 'completed', p_results[1], v_one.state, v_one.errors, v_one.dedupe_key,
                v_one.worker, v_one.redriven_from,
                pgqueue_started_at(v_now, v_one.leased_at, p_ran_seconds[1]), v_one.order_key, v_one.limits,
                v_one.cost);
            IF v_channel.limited THEN
                PERFORM pgqueue_record_departures(ARRAY[v_one.channel_id]);
            ELSIF v_channel.special = 1 OR v_one.limits IS NOT NULL OR v_channel.metered & 1 = 1 THEN
                PERFORM pgqueue_wake_freed(ARRAY[v_one.channel_id]);
            END IF;
            IF v_one.order_key IS NOT NULL THEN
                v_released := pgqueue_release_key(v_one.channel_id, v_one.order_key);
            END IF;
            IF v_one.flow IS NOT NULL THEN
                PERFORM pgqueue_flow_settled(ARRAY[v_one.flow], ARRAY[v_one.id], 'completed');
            END IF;
            -- The IF has no query of its own, because to start one costs those who have no breaker as much.
            IF v_channel.metered & 2 = 2 THEN
                PERFORM pgqueue_record_outcomes(ARRAY[
                    ROW(v_one.handler, v_one.channel_id, v_one.id, v_one.leased_at)::pgqueue_ended], false)
                FROM pgqueue_alert_breaker(v_one.handler, v_one.channel_id);
            END IF;
            RETURN NEXT v_one.id;
            RETURN;
        END IF;
    END IF;
    v_done := pgqueue_archive(p_ids, CASE WHEN p_cancelled THEN 'cancelled' ELSE 'completed' END, p_archive,
        p_ran_seconds, coalesce(p_tokens, '{}'), p_results);
    RETURN QUERY SELECT unnest(v_done);
    IF coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_done) WHERE NOT p_skip_lost;
        RETURN QUERY SELECT b.id FROM pgqueue_settled_before(p_ids, p_tokens, v_done) AS b
        WHERE b.outcome IN ('completed', 'cancelled');
    END IF;
END;
$$;
