-- Settles leased messages as done: moves them to the archive, in one statement.
-- Caller: the holder of the leases; p_ids and p_tokens pair up. p_cancelled: they were not done, but ended because
--   somebody wants that; without a result, his reason is kept.
-- Returns the ids that were completed. A lease that is not the caller's any more raises PGQ02 and nothing is changed. With p_skip_lost it
--   is left out, but for what this lease has completed before. Locks: the messages (lock order, step 2), in the order of ids.
-- Errors: PGQ02, PGQ07 arrays that do not pair up: raised, so that what was written for the messages cannot commit.
CREATE FUNCTION pgqueue_complete(
    p_ids bigint[],
    p_tokens uuid[],
    p_results jsonb[] DEFAULT NULL,
    p_skip_lost boolean DEFAULT false,
    p_cancelled boolean DEFAULT false
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
    v_events boolean;
BEGIN
    IF cardinality(p_tokens) <> cardinality(p_ids) OR cardinality(p_results) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens', 'p_results'],
            ARRAY[cardinality(p_tokens), cardinality(p_results)])));
    END IF;
    WITH settled AS (
        DELETE FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.*, CASE WHEN p_results IS NOT NULL THEN p_results[array_position(p_ids, m.id)] END AS result
    ),
    -- Left join: a message must not vanish because somebody deleted its channel by hand.
    placed AS (
        SELECT s.*, coalesce(c.queue, '') AS queue, coalesce(c.name, '') AS channel,
            c.max_concurrency IS NOT NULL OR c.max_size IS NOT NULL AS limited
        FROM settled AS s
        LEFT JOIN pgqueue_channel AS c ON c.id = s.channel_id
    ),
    archived AS (
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at, dequeue_at,
            leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker, redriven_from)
        SELECT n.id, n.queue, n.channel, n.handler, n.payload, n.body, n.headers, n.priority, n.attempts, n.max_attempts, n.created_at,
            n.dequeue_at, n.leased_at, n.lease_token, v_now, CASE WHEN p_cancelled THEN 'cancelled' ELSE 'completed' END,
            CASE
                WHEN p_cancelled AND n.result IS NULL AND n.cancel_reason <> '' THEN jsonb_build_object('reason', n.cancel_reason)
                ELSE n.result
            END,
            n.state, n.errors, n.dedupe_key, n.worker, n.redriven_from
        FROM placed AS n
    )
    SELECT array_agg(n.id), array_agg(n.channel_id) FILTER (WHERE n.limited),
        EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events)
    INTO v_done, v_limited, v_events
    FROM placed AS n;
    IF NOT p_skip_lost AND coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_done);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM pgqueue_depart(v_limited);
    END IF;
    IF v_events THEN
        PERFORM pgqueue_publish(CASE WHEN p_cancelled THEN 'cancelled' ELSE 'completed' END, v_done, v_now);
    END IF;
    RETURN QUERY SELECT unnest(v_done);
    IF coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        RETURN QUERY
        SELECT b.id FROM pgqueue_settled_before(p_ids, p_tokens, v_done) AS b WHERE b.outcome IN ('completed', 'cancelled');
    END IF;
END;
$$;
