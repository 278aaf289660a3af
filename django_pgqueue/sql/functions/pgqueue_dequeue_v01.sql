-- Leases up to p_limit messages of a queue to a worker for p_lease. The attempt is counted now: a crash of the worker counts.
-- Caller: a worker, in a transaction of its own. The token fences heartbeat and settlement: it is random, because a counter can be
--   issued twice after a failover that lost commits.
-- With fewer than p_limit it looks for expired leases and for what is due (pgqueue_bring_back), and takes again.
-- Returns the messages in the order of service, and at once: what another transaction holds at this moment is left out. After an empty
--   answer pgqueue_is_contended says whether that is why; then ask again soon. Nothing here sleeps, because it would hold locks meanwhile.
-- Locks: lanes and messages, SKIP LOCKED. Errors: PGQ07 invalid argument.
-- Plans are pinned: the tables churn, and statistics taken at a bad moment must not turn an index look-up into a scan.
CREATE FUNCTION pgqueue_dequeue(
    p_queue text DEFAULT 'default',
    p_limit integer DEFAULT 1,
    p_lease interval DEFAULT '15 seconds',
    p_worker text DEFAULT NULL
)
RETURNS TABLE (
    id bigint,
    channel text,
    handler text,
    payload jsonb,
    body bytea,
    headers jsonb,
    priority smallint,
    attempts integer,
    max_attempts integer,
    token uuid,
    lease_expires_at timestamptz,
    state jsonb,
    created_at timestamptz,
    dequeue_at timestamptz,
    context jsonb,
    last_leased_at timestamptz
)
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
    v_taken record;
    v_token uuid;
    v_channel_id bigint;
    v_count integer := 0;
    v_looked boolean := false;
BEGIN
    IF p_queue IS NULL OR coalesce(p_limit, 0) NOT BETWEEN 1 AND 10000 OR coalesce(p_lease, '0') <= '0'
        OR p_lease > '365000 days'
        OR current_setting('transaction_isolation') <> 'read committed'
    THEN
        PERFORM pgqueue_refuse_take(p_queue, p_limit, p_lease);
    END IF;
    FOR v_try IN 0..4 LOOP
        v_taken := pgqueue_take(p_queue, p_limit - v_count);
        -- Once more at once: what was folded last stands in the line only now.
        CONTINUE WHEN v_taken.ids = '{}' AND v_taken.contended AND v_try = 0;
        IF cardinality(v_taken.ids) = 1 THEN
            -- For one message two short statements cost less than the long one.
            v_count := v_count + 1;
            v_token := coalesce(v_token, gen_random_uuid());
            UPDATE pgqueue_message AS m
            SET status = 2,
                attempts = m.attempts + 1,
                leased_at = v_taken.taken_at,
                lease_expires_at = v_taken.taken_at + p_lease,
                lease_token = v_token,
                worker = p_worker
            WHERE m.id = v_taken.ids[1]
            RETURNING m.id, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts, m.lease_token,
                m.lease_expires_at, m.state, m.created_at, m.dequeue_at, m.last_leased_at, m.channel_id
            INTO id, handler, payload, body, headers, priority, attempts, max_attempts, token, lease_expires_at, state, created_at,
                dequeue_at, last_leased_at, v_channel_id;
            SELECT c.name, nullif(c.context, '{}') INTO channel, context FROM pgqueue_channel AS c WHERE c.id = v_channel_id;
            RETURN NEXT;
        ELSIF v_taken.ids <> '{}' THEN
            v_count := v_count + cardinality(v_taken.ids);
            v_token := coalesce(v_token, gen_random_uuid());
            RETURN QUERY
            WITH leased AS (
                UPDATE pgqueue_message AS m
                SET status = 2,
                    attempts = m.attempts + 1,
                    leased_at = v_taken.taken_at,
                    lease_expires_at = v_taken.taken_at + p_lease,
                    lease_token = v_token,
                    worker = p_worker
                WHERE m.id = ANY (v_taken.ids)
                RETURNING m.id, m.channel_id, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
                    m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at, m.last_leased_at
            )
            SELECT l.id, c.name::text, l.handler::text, l.payload, l.body, l.headers, l.priority, l.attempts, l.max_attempts,
                l.lease_token, l.lease_expires_at, l.state, l.created_at, l.dequeue_at, nullif(c.context, '{}'), l.last_leased_at
            FROM leased AS l
            LEFT JOIN pgqueue_channel AS c ON c.id = l.channel_id
            ORDER BY array_position(v_taken.ids, l.id);
        END IF;
        -- With something, once more at most; with nothing, a few times: what comes back may be of channels at their limit.
        EXIT WHEN v_count = p_limit OR (v_count > 0 AND v_looked) OR pgqueue_bring_back(p_queue, p_limit - v_count, v_taken.taken_at, p_worker) = 0;
        v_looked := true;
    END LOOP;
END;
$$;
