-- Sets a new end for leases: p_lease from now, later or sooner than before. A p_lease of 0 gives the messages back, as
-- pgqueue_defer does without a time: they are ready at once, in their old place. The attempt counts, or a holder could
-- repeat this for ever.
-- Returns the ids that are still held (with 0: that were given back), and whether a cancellation was requested. A lost
--   lease raises PGQ02, or with p_skip_lost is left out; p_skip_lost also skips a message that another transaction has
--   locked, which keeps the sweep away.
-- Locks: the messages (lock order, step 2), in the order of ids; with p_skip_lost SKIP LOCKED.
-- Errors: PGQ02, PGQ07.
CREATE FUNCTION pgqueue_heartbeat(
    p_ids bigint[],
    p_tokens uuid[],
    p_lease interval DEFAULT '15 seconds',
    p_skip_lost boolean DEFAULT false
)
RETURNS TABLE (id bigint, cancelled boolean)
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
    v_expires_at timestamptz;
    v_free bigint[];
    v_held bigint[];
    v_cancelled boolean[];
BEGIN
    IF coalesce(p_lease, '-1 second') < '0' OR p_lease > '365000 days' THEN
        RAISE EXCEPTION 'a lease takes a positive time of at most 365000 days, or 0 to give the message back, not %',
            coalesce(p_lease::text, 'NULL')
            USING ERRCODE = 'PGQ07';
    ELSIF p_lease = '0' THEN
        RETURN QUERY
        SELECT d.id, d.outcome = 'cancelled'
        FROM pgqueue_defer(p_ids, p_tokens, p_skip_lost => p_skip_lost, p_count_attempt => true) AS d
        WHERE d.outcome IN ('deferred', 'cancelled', 'dead_lettered');
        RETURN;
    END IF;
    IF cardinality(p_tokens) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens'],
            ARRAY[cardinality(p_tokens)])));
    END IF;
    v_expires_at := clock_timestamp() + p_lease;
    IF p_skip_lost THEN
        -- A lease that a hanging transaction has locked must not let the others expire.
        v_free := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
            ORDER BY m.id
            FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    -- Sets the new end of the leases that the caller still holds.
    WITH held AS (
        UPDATE pgqueue_message AS m
        SET lease_expires_at = v_expires_at
        WHERE m.id = ANY (coalesce(v_free, p_ids)) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.id, m.cancelled_at IS NOT NULL AS cancelled
    )
    SELECT array_agg(h.id), array_agg(h.cancelled) INTO v_held, v_cancelled FROM held AS h;
    IF coalesce(cardinality(v_held), 0) < cardinality(p_ids) THEN
        IF NOT p_skip_lost THEN
            PERFORM pgqueue_lease_lost(p_ids, v_held);
        END IF;
        RETURN QUERY
        SELECT m.id, m.cancelled_at IS NOT NULL FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND m.id <> ALL (coalesce(v_held, '{}'))
            AND m.lease_token = p_tokens[array_position(p_ids, m.id)];
    END IF;
    RETURN QUERY SELECT u.id, u.cancelled FROM unnest(v_held, v_cancelled) AS u (id, cancelled);
END;
$$;
