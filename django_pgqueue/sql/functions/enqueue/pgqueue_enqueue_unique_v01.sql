-- Enqueues one message, unless one with the same key is there already: then that one is kept, or gets the new payload.
-- p_unique: {"key": …, "until": …, "replace": …, "window": …, "wait": …, "at_most": …}. The key is that of the channel.
--   until: how long a message keeps it: leased, until it is leased first; settled, until it is settled; due, until its
--   time has come. window: so long from the enqueue on, whatever becomes of it, in place of until.
--   replace: a message that waits, and was never leased, gets the payload, body and headers of this call.
--   wait, with until = due: the message is due after this time, and each replacement puts it off again, until at_most
--   from its enqueue on.
-- The other parameters are those of pgqueue_enqueue.
-- Returns what pgqueue_enqueue does; duplicate: the id of the message that is kept; replaced: that of the message that
--   has the new payload. A message that is kept or replaced cannot be leased before the caller commits, so that its
--   handler sees what the caller has written.
-- Locks: the key, for p_wait at most; then the message that has it, SKIP LOCKED, or as pgqueue_enqueue.
CREATE FUNCTION pgqueue_enqueue_unique(
    p_unique jsonb,
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
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_key text := p_unique ->> 'key';
    v_until text := coalesce(p_unique ->> 'until', 'settled');
    v_wait interval := CASE WHEN v_until = 'due' THEN (p_unique ->> 'wait')::interval END;
    v_delay interval := coalesce(v_wait, p_delay);
    v_now timestamptz;
    v_channel_id bigint;
    v_held record;
    v_message record;
    v_problem text;
    v_timeout text := current_setting('lock_timeout');
BEGIN
    v_problem := coalesce(
        CASE
            WHEN coalesce(v_key, '') = '' THEN 'the unique key is empty'
            WHEN length(v_key) > 200 THEN 'the unique key is longer than 200 characters'
            WHEN v_until NOT IN ('leased', 'settled', 'due') THEN 'until is not leased, settled or due'
            WHEN v_until = 'due' AND v_wait IS NULL THEN 'until is due, and there is no wait'
            WHEN v_until = 'due' AND num_nonnulls(p_dequeue_at, p_delay) > 0
                THEN 'both a debounce and dequeue_at or delay are given: give one'
        END,
        pgqueue_validate(p_handler, p_payload, p_body, p_headers, p_priority, p_dequeue_at, v_delay, p_max_attempts,
            p_backoff, p_backoff_factor, p_backoff_longest, NULL));
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid message: ' || v_problem);
        outcome := 'invalid';
        RETURN;
    END IF;
    SELECT c.id INTO v_channel_id FROM pgqueue_channel AS c
    WHERE c.queue = p_queue AND c.name = p_channel AND c.released_at IS NULL;
    IF NOT FOUND THEN
        SELECT m.id, m.refusal INTO v_channel_id, refusal
        FROM pgqueue_missing_channel(p_queue, p_channel, p_create_channel) AS m;
        IF refusal IS NOT NULL THEN
            outcome := refusal ->> 'outcome';
            RETURN;
        END IF;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', pgqueue_enqueue_wait(p_wait, v_timeout, false), true);
        INSERT INTO pgqueue_unique_key AS u (channel_id, unique_key, message_id) VALUES (v_channel_id, v_key, 0)
        ON CONFLICT (channel_id, unique_key) DO UPDATE SET unique_key = excluded.unique_key
        RETURNING u.message_id, u.expires_at INTO v_held;
        PERFORM set_config('lock_timeout', v_timeout, true);
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        refusal := pgqueue_refusal('PGQ06', format('a unique key of channel "%s" of queue "%s" is busy: another '
            'transaction enqueues a message with it', p_channel, p_queue), 'Try again when that transaction has ended.');
        outcome := refusal ->> 'outcome';
        RETURN;
    END;
    -- The clock is read after the wait. A message that another transaction has locked is being taken.
    v_now := clock_timestamp();
    SELECT m.id, m.attempts = 0 AND m.status <> 2 AND (v_until <> 'due' OR m.dequeue_at > v_now)
        AND coalesce(v_held.expires_at > v_now, p_unique ->> 'window' IS NULL) AS waits
    INTO v_message
    FROM pgqueue_message AS m WHERE m.id = v_held.message_id FOR UPDATE SKIP LOCKED;
    IF v_message.waits AND (p_unique ->> 'replace')::boolean THEN
        UPDATE pgqueue_message AS m
        SET payload = coalesce(p_payload, 'null'), body = p_body, headers = p_headers,
            dequeue_at = CASE WHEN v_until = 'due' THEN least(v_now + v_wait,
                m.created_at + (p_unique ->> 'at_most')::interval) ELSE m.dequeue_at END
        WHERE m.id = v_message.id;
        id := v_message.id;
        outcome := 'replaced';
        RETURN;
    ELSIF v_message.waits OR v_held.expires_at > v_now OR v_until = 'settled' AND p_unique ->> 'window' IS NULL
        AND EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = v_held.message_id) THEN
        id := v_held.message_id;
        outcome := 'duplicate';
        RETURN;
    END IF;
    SELECT e.id, e.outcome, e.created_at, e.dropped_ids, e.refusal INTO id, outcome, created_at, dropped_ids, refusal
    FROM pgqueue_enqueue(
        p_handler, p_payload, p_channel, p_queue, p_body, p_headers, p_priority, p_dequeue_at, v_delay, p_max_attempts,
        p_backoff, p_backoff_factor, p_backoff_longest, NULL, p_create_channel, p_wait, p_limits, p_cost, p_order_key
    ) AS e;
    IF outcome = 'created' THEN
        UPDATE pgqueue_unique_key AS u SET message_id = id, expires_at = v_now + (p_unique ->> 'window')::interval
        WHERE u.channel_id = v_channel_id AND u.unique_key = v_key;
    ELSE
        DELETE FROM pgqueue_unique_key AS u
        WHERE u.channel_id = v_channel_id AND u.unique_key = v_key AND u.message_id = 0;
    END IF;
END;
$$;
