-- Enqueues one message. It is there if and only if the caller's transaction commits.
-- Caller: anyone. Returns the id and 'created', 'duplicate' (a live message of the channel has the same dedupe key: its id)
--   or 'dropped' (the channel is full and its policy is to drop: no id).
-- Locks: none, but for a channel with max_size (lock order, step 1) and for the same dedupe key in an open transaction.
-- Errors: PGQ03 channel not found, PGQ04 channel full, PGQ05 channel released, PGQ06 channel busy, PGQ07 invalid message.
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
    OUT id bigint,
    OUT outcome text
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_dequeue_at timestamptz := coalesce(p_dequeue_at, v_now + coalesce(p_delay, '0'));
    v_channel record;
BEGIN
    IF coalesce(p_handler, '') = '' OR length(p_handler) > 200 OR coalesce(p_priority, 99999) NOT BETWEEN -32767 AND 32767
        OR coalesce(p_max_attempts, 0) < 1 OR p_dequeue_at IS NOT NULL OR p_dedupe_key IS NOT NULL
        OR p_backoff IS NOT NULL OR p_backoff_factor IS NOT NULL OR p_backoff_longest IS NOT NULL
    THEN
        PERFORM pgqueue_validate(
            p_handler, p_priority, p_dequeue_at, p_delay, p_max_attempts, p_backoff, p_backoff_factor, p_backoff_longest, p_dedupe_key);
    END IF;
    SELECT c.id, c.max_size, c.full_policy, c.released_at
    INTO v_channel
    FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel;
    IF NOT FOUND THEN
        v_channel := pgqueue_missing_channel(p_channel, p_queue, p_create_channel);
    END IF;

    -- The loop ends at the first pass, unless the duplicate was settled between the two statements.
    WHILE p_dedupe_key IS NOT NULL LOOP
        id := pgqueue_find_duplicate(v_channel.id, p_dedupe_key);
        IF id IS NOT NULL THEN
            outcome := 'duplicate';
            RETURN;
        END IF;
        EXIT WHEN v_channel.max_size IS NOT NULL AND v_channel.full_policy = 'drop'
            AND pgqueue_reserve(v_channel.id, v_channel.max_size, 0) < 1;
        INSERT INTO pgqueue_message (
            channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff, backoff_factor,
            backoff_longest, dedupe_key)
        VALUES (
            v_channel.id, p_handler, coalesce(p_payload, 'null'), p_body, p_headers, p_priority, v_dequeue_at,
            CASE WHEN v_dequeue_at > v_now THEN 3 ELSE 1 END, p_max_attempts, p_backoff, p_backoff_factor,
            p_backoff_longest, p_dedupe_key)
        ON CONFLICT (channel_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
        RETURNING pgqueue_message.id INTO id;
        IF FOUND THEN
            outcome := 'created';
            RETURN;
        END IF;
    END LOOP;

    IF v_channel.max_size IS NOT NULL AND v_channel.full_policy = 'drop'
        AND pgqueue_reserve(v_channel.id, v_channel.max_size, 0) < 1
    THEN
        outcome := 'dropped';
        RETURN;
    END IF;
    INSERT INTO pgqueue_message (
        channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff, backoff_factor, backoff_longest)
    VALUES (
        v_channel.id, p_handler, coalesce(p_payload, 'null'), p_body, p_headers, p_priority, v_dequeue_at,
        CASE WHEN v_dequeue_at > v_now THEN 3 ELSE 1 END, p_max_attempts, p_backoff, p_backoff_factor, p_backoff_longest)
    RETURNING pgqueue_message.id INTO id;
    outcome := 'created';
END;
$$;
