-- Enqueues one message that waits until other messages have ended.
-- p_after: the ids of live messages, archived ones, which count at once, or dead letters; at most 1,000. One that was
--   redriven stands for the message that came of it. p_on_dead: what becomes of the message when one of them ends
--   without being completed: cancel, run, or wait, until a redrive of the dead letter is completed.
-- The other parameters are those of pgqueue_enqueue. The message has p_after in its header after. It is due at its
-- time, or when it is released, whichever comes later.
-- Returns what pgqueue_enqueue does; invalid, too, if there is no such message.
-- Locks: as pgqueue_enqueue; then, of what it waits for, what this transaction has written itself. The rest is locked at
--   the commit, without waiting (pgqueue_after_committed).
CREATE FUNCTION pgqueue_enqueue_after(
    p_after bigint[],
    p_on_dead text,
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
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_id bigint;
    v_ids bigint[] := ARRAY(SELECT DISTINCT u FROM unnest(p_after) AS u);
    v_missing bigint;
    v_held boolean;
BEGIN
    -- One statement looks into all tables: a message is always in one of them. The archive has many partitions.
    IF (SELECT count(*) FROM pgqueue_message AS m WHERE m.id = ANY (v_ids)) < cardinality(v_ids) THEN
        SELECT min(u.id) INTO v_missing
        FROM unnest(v_ids) AS u (id)
        WHERE NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = u.id)
            AND NOT EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = u.id)
            AND NOT EXISTS (SELECT FROM pgqueue_archived_message AS a WHERE a.id = u.id);
    END IF;
    refusal := CASE
        WHEN p_after IS NULL OR array_position(p_after, NULL) > 0
            THEN pgqueue_refusal('PGQ07', 'invalid message: after has no id')
        WHEN cardinality(p_after) > 1000
            THEN pgqueue_refusal('PGQ07', 'invalid message: after has more than 1000 messages: put them into a batch')
        WHEN coalesce(p_on_dead, '') NOT IN ('cancel', 'run', 'wait')
            THEN pgqueue_refusal('PGQ07', 'invalid message: on_dead is not cancel, run or wait')
        WHEN v_missing IS NOT NULL
            THEN pgqueue_refusal('PGQ07', format('there is no message %s to wait for', v_missing),
                'It was never committed, retention has dropped it, or nothing was archived of it (archive = none).')
    END;
    IF refusal IS NOT NULL THEN
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    -- A message for later has no arrival, so no dequeue looks for it.
    SELECT e.id, e.id, e.outcome, e.created_at, e.dropped_ids, e.refusal
    INTO v_id, id, outcome, created_at, dropped_ids, refusal
    FROM pgqueue_enqueue(
        p_handler, p_payload, p_channel, p_queue, p_body,
        coalesce(p_headers, '{}') || jsonb_build_object('after', p_after), p_priority, p_dequeue_at,
        CASE WHEN p_dequeue_at IS NULL THEN coalesce(p_delay, '1 day') ELSE p_delay END,
        p_max_attempts, p_backoff, p_backoff_factor, p_backoff_longest, p_dedupe_key, p_create_channel, p_wait,
        p_limits, p_cost, p_order_key) AS e;
    IF outcome <> 'created' THEN
        RETURN;
    END IF;
    UPDATE pgqueue_message AS m
    SET status = 3, waits_for = -2, flow = -abs(coalesce(m.flow, 0)),
        dequeue_at = coalesce(p_dequeue_at, m.created_at + coalesce(p_delay, '0'))
    WHERE m.id = v_id;
    INSERT INTO pgqueue_batch_member (batch_id, member_id) SELECT -v_id, u FROM unnest(v_ids) AS u;
    v_held := pgqueue_after_hold(-v_id, p_on_dead, false);
    -- Without sealed_at, the commit looks again (pgqueue_after_committed).
    INSERT INTO pgqueue_batch (id, sealed_at, total, policy)
    VALUES (-v_id, CASE WHEN v_held THEN clock_timestamp() END, cardinality(v_ids), p_on_dead);
    IF v_held THEN
        PERFORM pgqueue_after_end(-v_id);
    END IF;
END;
$$;
