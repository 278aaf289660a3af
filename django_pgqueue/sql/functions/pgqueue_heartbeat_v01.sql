-- Extends leases: they expire p_lease from now.
-- Caller: the holder of the leases. Returns the ids that are still held, and whether somebody wants the message cancelled. A lost lease
--   raises PGQ02, or with p_skip_lost is left out; a message that somebody has locked, which keeps the sweep away, is passed by then.
-- Locks: the messages (lock order, step 2), in the order of ids; with p_skip_lost SKIP LOCKED. Errors: PGQ02, PGQ07.
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
    v_expires_at timestamptz := clock_timestamp() + p_lease;
    v_free bigint[];
    v_held bigint[];
    v_cancelled boolean[];
BEGIN
    IF coalesce(p_lease, '0') <= '0' THEN
        RAISE EXCEPTION 'a lease takes a positive time, not %', coalesce(p_lease::text, 'NULL') USING ERRCODE = 'PGQ07';
    END IF;
    IF p_skip_lost THEN
        -- One that a hanging transaction has locked must not let the others run out.
        v_free := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
            ORDER BY m.id
            FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
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
