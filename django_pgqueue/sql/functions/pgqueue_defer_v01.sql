-- Gives leased messages back on purpose, to be delivered again at p_until or after p_delay; without either at once, in their old place.
-- p_states replaces the saved state.
-- A deferral is progress, not a failure: the attempt is given back, so a long chain of deferrals never runs out of attempts.
-- Caller: the holder of the leases. What somebody wants cancelled goes to the archive instead.
-- Returns id and outcome, deferred or cancelled. A lost lease raises PGQ02. With p_skip_lost it is left out, but for what this lease has
--   settled before, with what became of it then.
-- Locks: the messages (lock order, step 2), in the order of ids. Errors: PGQ02, PGQ07.
CREATE FUNCTION pgqueue_defer(
    p_ids bigint[],
    p_tokens uuid[],
    p_until timestamptz[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL,
    p_states jsonb[] DEFAULT NULL,
    p_keep_state boolean DEFAULT true,
    p_skip_lost boolean DEFAULT false
)
RETURNS TABLE (id bigint, outcome text)
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
    v_done bigint[];
    v_channels bigint[];
    v_cancelled bigint[];
BEGIN
    IF EXISTS (SELECT FROM unnest(p_until) AS u WHERE NOT isfinite(u)) THEN
        RAISE EXCEPTION 'cannot defer until an infinite time' USING ERRCODE = 'PGQ07', HINT = 'Dead-letter the message, or pause its channel.';
    END IF;
    WITH given_back AS (
        UPDATE pgqueue_message AS m
        SET status = CASE
                WHEN m.cancelled_at IS NOT NULL THEN 2
                WHEN p_until[array_position(p_ids, m.id)] > v_now OR p_delays[array_position(p_ids, m.id)] > '0' THEN 3
                ELSE 1
            END,
            dequeue_at = CASE
                WHEN p_until[array_position(p_ids, m.id)] IS NULL AND p_delays[array_position(p_ids, m.id)] IS NULL THEN m.dequeue_at
                ELSE greatest(v_now, p_until[array_position(p_ids, m.id)], v_now + p_delays[array_position(p_ids, m.id)])
            END,
            attempts = m.attempts - CASE WHEN m.cancelled_at IS NULL THEN 1 ELSE 0 END,
            state = CASE
                WHEN p_keep_state THEN coalesce(p_states[array_position(p_ids, m.id)], m.state)
                ELSE p_states[array_position(p_ids, m.id)]
            END,
            leased_at = CASE WHEN m.cancelled_at IS NOT NULL THEN m.leased_at END,
            lease_expires_at = CASE WHEN m.cancelled_at IS NOT NULL THEN m.lease_expires_at END,
            lease_token = CASE WHEN m.cancelled_at IS NOT NULL THEN m.lease_token END,
            worker = CASE WHEN m.cancelled_at IS NOT NULL THEN m.worker END,
            settled_token = m.lease_token
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.id, m.channel_id, m.status
    )
    SELECT array_agg(g.id) FILTER (WHERE g.status <> 2), array_agg(g.channel_id) FILTER (WHERE g.status <> 2),
        array_agg(g.id) FILTER (WHERE g.status = 2)
    INTO v_done, v_channels, v_cancelled
    FROM given_back AS g;
    IF NOT p_skip_lost AND coalesce(cardinality(v_done || v_cancelled), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_done || v_cancelled);
    END IF;
    PERFORM pgqueue_announce(v_done);
    PERFORM pgqueue_depart(v_channels, false);
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) THEN
        PERFORM pgqueue_publish('deferred', v_done);
    END IF;
    IF v_cancelled IS NOT NULL THEN
        PERFORM pgqueue_archive(v_cancelled, 'cancelled');
    END IF;
    RETURN QUERY SELECT u, 'deferred'::text FROM unnest(v_done) AS u UNION ALL SELECT u, 'cancelled' FROM unnest(v_cancelled) AS u;
    IF coalesce(cardinality(v_done || v_cancelled), 0) < cardinality(p_ids) THEN
        RETURN QUERY SELECT b.id, b.outcome FROM pgqueue_settled_before(p_ids, p_tokens, v_done || v_cancelled) AS b;
    END IF;
END;
$$;
