-- Enqueues one message. It exists if and only if the caller's transaction commits.
-- p_limits: names of shared limits, see pgqueue_limit_set; p_cost: what it costs of rates and of max_cost, default 1.
-- p_order_key: messages of the channel with the same key are delivered one after the other, in the order of their ids.
-- p_wait: how long to wait behind another open transaction that enqueues to a channel with max_size, or the same dedupe
-- key; NULL: the setting pgqueue.enqueue_wait, or 2 s.
-- Returns the id and 'created', 'duplicate' (a live message of the channel has the same dedupe key: its id) or
--   'dropped' (the channel is full and its policy is to drop: no id). A request that cannot be granted is decided
--   before anything is written, and returned, not raised: not_found, released, full, busy or invalid, with the refusal
--   (pgqueue_refusal). The transaction stays usable. created_at is set for 'created' alone; dropped_ids, when messages
--   of a full channel have left for it (drop_oldest, replace).
-- Locks: none, except for a channel with max_size (lock order, step 1; dropped messages, SKIP LOCKED) and for the same
--   dedupe key in an open transaction, for p_wait at most (pgqueue_enqueue_each).
CREATE FUNCTION pgqueue_enqueue(
    p_handler text,
    p_payload jsonb DEFAULT '{}',
    p_channel text DEFAULT 'default',
    p_queue text DEFAULT 'default',
    p_body bytea DEFAULT NULL,
    p_headers jsonb DEFAULT NULL,
    p_priority integer DEFAULT 0,
    p_dequeue_at timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL,
    p_max_attempts integer DEFAULT 5,
    p_backoff interval DEFAULT NULL,
    p_backoff_factor double precision DEFAULT NULL,
    p_backoff_longest interval DEFAULT NULL,
    p_dedupe_key text DEFAULT NULL,
    p_create_channel boolean DEFAULT false,
    p_wait interval DEFAULT NULL,
    p_limits text[] DEFAULT NULL,
    p_cost integer DEFAULT NULL,
    p_order_key text DEFAULT NULL,
    OUT id bigint,
    OUT outcome text,
    OUT created_at timestamptz,
    OUT dropped_ids bigint[],
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_dequeue_at timestamptz;
    v_channel record;
    v_problem text;
    v_limits bigint[];
    v_waits_for bigint;
BEGIN
    v_problem := pgqueue_validate(
        p_handler, p_payload, p_body, p_headers, p_priority, p_dequeue_at, p_delay, p_max_attempts, p_backoff,
        p_backoff_factor, p_backoff_longest, p_dedupe_key);
    IF p_limits IS NOT NULL OR p_cost IS NOT NULL OR p_order_key IS NOT NULL THEN
        v_problem := coalesce(v_problem, pgqueue_metering_problem(to_jsonb(p_limits), p_cost, p_order_key,
            p_queue, p_channel, p_handler));
        v_limits := pgqueue_limit_ids(to_jsonb(p_limits));
    END IF;
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid message: ' || v_problem);
        outcome := 'invalid';
        RETURN;
    END IF;
    v_dequeue_at := coalesce(p_dequeue_at, v_now + coalesce(p_delay, '0'));
    SELECT c.id, c.max_size, c.full_policy INTO v_channel
    FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel AND c.released_at IS NULL;
    IF NOT FOUND THEN
        v_channel := pgqueue_missing_channel(p_queue, p_channel, p_create_channel);
        IF v_channel.refusal IS NOT NULL THEN
            refusal := v_channel.refusal;
            outcome := refusal ->> 'outcome';
            RETURN;
        END IF;
    END IF;
    IF p_dedupe_key IS NOT NULL THEN
        id := pgqueue_find_duplicate(v_channel.id, p_dedupe_key);
        IF id IS NOT NULL THEN
            outcome := 'duplicate';
            RETURN;
        END IF;
        -- An open transaction may have enqueued the key: only a subtransaction survives the end of the wait.
        IF current_setting('pgqueue.bounded', true) IS DISTINCT FROM 'on' THEN
            SELECT e.* INTO id, outcome, created_at, dropped_ids, refusal
            FROM pgqueue_enqueue_each(ARRAY[ROW(1, p_handler, p_payload, p_channel, p_queue, p_body, p_headers,
                p_priority, p_dequeue_at, p_delay, p_max_attempts, p_backoff, p_backoff_factor, p_backoff_longest,
                p_dedupe_key, to_jsonb(p_limits), p_cost, p_order_key)::pgqueue_request], p_create_channel, true,
                p_wait) AS e;
            RETURN;
        END IF;
    END IF;
    IF v_channel.max_size IS NOT NULL THEN
        SELECT a.outcome, a.dropped_ids, a.refusal INTO outcome, dropped_ids, refusal
        FROM pgqueue_admit(v_channel.id, v_channel.max_size, v_channel.full_policy, 1, p_wait) AS a;
        IF dropped_ids IS NOT NULL AND p_dedupe_key IS NOT NULL THEN
            -- Another enqueuer may have brought the key while this one waited for the count: a duplicate makes nothing
            -- leave.
            id := pgqueue_find_duplicate(v_channel.id, p_dedupe_key);
            outcome := CASE WHEN id IS NOT NULL THEN 'duplicate' END;
            dropped_ids := CASE WHEN id IS NULL THEN dropped_ids END;
        END IF;
        IF outcome IS NOT NULL THEN
            RETURN;
        ELSIF dropped_ids IS NOT NULL THEN
            PERFORM pgqueue_archive(dropped_ids, 'dropped');
        END IF;
    END IF;
    IF v_limits IS NOT NULL AND v_dequeue_at <= v_now THEN
        v_waits_for := pgqueue_waits_for(v_channel.id, v_limits);
    END IF;
    -- The loop ends at the first pass, unless the duplicate was settled between its two statements.
    WHILE outcome IS NULL LOOP
        INSERT INTO pgqueue_message (
            channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff,
            backoff_factor, backoff_longest, dedupe_key, limits, cost, waits_for,
            order_key)
        VALUES (
            v_channel.id, p_handler, coalesce(p_payload, 'null'), p_body, p_headers, p_priority, v_dequeue_at,
            CASE WHEN v_dequeue_at > v_now OR v_waits_for IS NOT NULL THEN 3 ELSE 1 END, p_max_attempts, p_backoff,
            p_backoff_factor, p_backoff_longest, p_dedupe_key, v_limits, p_cost,
            v_waits_for, p_order_key)
        ON CONFLICT (channel_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
        RETURNING pgqueue_message.id, pgqueue_message.created_at INTO id, created_at;
        outcome := CASE WHEN FOUND THEN 'created' END;
        IF outcome IS NULL THEN
            id := pgqueue_find_duplicate(v_channel.id, p_dedupe_key);
            outcome := CASE WHEN id IS NOT NULL THEN 'duplicate' END;
        END IF;
    END LOOP;
END;
$$;
