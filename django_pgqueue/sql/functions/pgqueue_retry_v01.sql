-- Puts failed messages back under their retry policy: after p_delays, or the back-off of the message; dead letters when the attempts are used up.
-- Caller: the holder of the leases after an exception; pgqueue_sweep for a worker that died (p_reason poison). p_errors: what went wrong, one
--   JSON object a message; kept with the message, attempt by attempt.
-- Returns id and outcome, 'retried' or 'dead_lettered'. A lost lease raises PGQ02, or with p_skip_lost is left out.
-- Locks: the messages (lock order, step 2), in the order of ids.
CREATE FUNCTION pgqueue_retry(
    p_ids bigint[],
    p_tokens uuid[],
    p_errors jsonb[],
    p_delays interval[] DEFAULT NULL,
    p_reason text DEFAULT 'failed',
    p_skip_lost boolean DEFAULT false
)
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_back bigint[];
    v_channels bigint[];
    v_dead bigint[];
    v_dead_tokens uuid[];
BEGIN
    WITH asked AS (
        SELECT u.id, u.token, u.error, u.delay
        FROM unnest(p_ids, p_tokens, p_errors, p_delays) AS u (id, token, error, delay)
        ORDER BY u.id
    ),
    failed AS (
        UPDATE pgqueue_message AS m
        SET errors = coalesce(m.errors, '[]')
                || (jsonb_build_object('attempt', m.attempts, 'at', v_now, 'worker', m.worker) || coalesce(a.error, '{}')),
            status = CASE WHEN m.attempts >= m.max_attempts THEN 2 ELSE 3 END,
            dequeue_at = CASE
                WHEN m.attempts >= m.max_attempts THEN m.dequeue_at
                ELSE v_now + greatest(coalesce(a.delay, pgqueue_backoff(m.attempts, m.backoff)), '0')
            END,
            leased_at = CASE WHEN m.attempts >= m.max_attempts THEN m.leased_at END,
            lease_expires_at = CASE WHEN m.attempts >= m.max_attempts THEN m.lease_expires_at END,
            lease_token = CASE WHEN m.attempts >= m.max_attempts THEN m.lease_token END,
            worker = CASE WHEN m.attempts >= m.max_attempts THEN m.worker END
        FROM asked AS a
        WHERE m.id = ANY (p_ids) AND m.id = a.id AND m.lease_token = a.token
        RETURNING m.id, m.channel_id, m.status, m.lease_token
    )
    SELECT array_agg(f.id) FILTER (WHERE f.status = 3), array_agg(f.channel_id) FILTER (WHERE f.status = 3),
        array_agg(f.id ORDER BY f.id) FILTER (WHERE f.status = 2), array_agg(f.lease_token ORDER BY f.id) FILTER (WHERE f.status = 2)
    INTO v_back, v_channels, v_dead, v_dead_tokens
    FROM failed AS f;
    IF NOT p_skip_lost AND coalesce(cardinality(v_back), 0) + coalesce(cardinality(v_dead), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_back || v_dead);
    END IF;
    IF v_back IS NOT NULL THEN
        PERFORM pgqueue_depart(v_channels, false);
    END IF;
    IF v_dead IS NOT NULL THEN
        PERFORM pgqueue_dead_letter(v_dead, v_dead_tokens, array_fill(p_reason, ARRAY[cardinality(v_dead)]));
    END IF;
    RETURN QUERY SELECT u, 'retried'::text FROM unnest(v_back) AS u UNION ALL SELECT u, 'dead_lettered' FROM unnest(v_dead) AS u;
END;
$$;
