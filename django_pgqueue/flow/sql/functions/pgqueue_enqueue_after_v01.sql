-- Enqueues one message that waits until other messages have ended.
-- p_after: the ids of live messages, archived ones, which count at once, or dead letters; at most 1,000. One that was
--   redriven stands for the message that came of it. p_on_dead: what becomes of the message when one of them ends
--   without being completed: cancel, run, or wait, until a redrive of the dead letter is completed.
-- The other parameters are those of pgqueue_enqueue. The message has p_after in its header after. It is due at its
-- time, or when it is released, whichever comes later.
-- Returns what pgqueue_enqueue does; invalid, too, if there is no such message; busy, if another transaction settles
--   one of them for longer than p_wait.
-- Locks: as pgqueue_enqueue; then the live ones of p_after, FOR KEY SHARE, in the order of ids, for p_wait at most: they
--   are neither delivered nor settled before the caller's transaction ends; with wait, the dead letters, too, FOR SHARE.
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
AS $$
#variable_conflict use_column
DECLARE
    v_id bigint;
    v_ids bigint[] := ARRAY(SELECT DISTINCT u FROM unnest(p_after) AS u ORDER BY u);
    v_newest bigint[];
    v_live bigint[];
    v_missing bigint;
    v_problem text;
    v_timeout text := current_setting('lock_timeout');
BEGIN
    v_problem := coalesce(
        CASE
            WHEN p_after IS NULL OR array_position(p_after, NULL) > 0 THEN 'after has no id'
            WHEN cardinality(p_after) > 1000 THEN 'after has more than 1000 messages: put them into a batch'
            WHEN coalesce(p_on_dead, '') NOT IN ('cancel', 'run', 'wait') THEN 'on_dead is not cancel, run or wait'
        END,
        pgqueue_validate(p_handler, p_payload, p_body, p_headers, p_priority, p_dequeue_at, p_delay, p_max_attempts,
            p_backoff, p_backoff_factor, p_backoff_longest, p_dedupe_key));
    IF v_problem IS NOT NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid message: ' || v_problem);
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    BEGIN
        -- First, by the lock order: the count of the channel and the dedupe key come before messages. A message for
        -- later has no arrival, so no dequeue looks for it.
        SELECT e.id, e.id, e.outcome, e.created_at, e.dropped_ids, e.refusal
        INTO v_id, id, outcome, created_at, dropped_ids, refusal
        FROM pgqueue_enqueue(
            p_handler, p_payload, p_channel, p_queue, p_body,
            coalesce(p_headers, '{}') || jsonb_build_object('after', p_after), p_priority, NULL, interval '1 day',
            p_max_attempts, p_backoff, p_backoff_factor, p_backoff_longest, p_dedupe_key, p_create_channel, p_wait,
            p_limits, p_cost, p_order_key) AS e;
        IF outcome <> 'created' THEN
            RETURN;
        END IF;
        PERFORM set_config('lock_timeout', pgqueue_enqueue_wait(p_wait, v_timeout, false), true);
        LOOP
            v_live := ARRAY(
                SELECT m.id FROM pgqueue_message AS m WHERE m.id = ANY (v_ids) ORDER BY m.id FOR KEY SHARE);
            EXIT WHEN cardinality(v_live) = cardinality(v_ids);
            -- A redrive must see that this message waits for its dead letter.
            PERFORM FROM pgqueue_dead_letter AS d
            WHERE d.id = ANY (v_ids) AND p_on_dead = 'wait' ORDER BY d.id FOR SHARE;
            -- A statement of its own: it sees what the locks have waited for, and what the enqueue has dropped.
            SELECT array_agg(DISTINCT coalesce(d.redriven_to, u.id)),
                min(u.id) FILTER (WHERE d.id IS NULL AND u.id <> ALL (v_live || coalesce(dropped_ids, '{}'))
                    AND NOT EXISTS (SELECT FROM pgqueue_archived_message AS a WHERE a.id = u.id))
            INTO v_newest, v_missing
            FROM unnest(v_ids) AS u (id)
            LEFT JOIN pgqueue_dead_letter AS d ON d.id = u.id;
            IF v_missing IS NOT NULL THEN
                RAISE SQLSTATE 'PGQ07';
            END IF;
            EXIT WHEN v_newest = v_ids;
            v_ids := v_newest;
        END LOOP;
        -- Their settlement must look for messages that wait.
        UPDATE pgqueue_message AS m SET flow = -coalesce(m.flow, 0)
        WHERE m.id = ANY (v_live) AND (m.flow IS NULL OR m.flow > 0);
        PERFORM set_config('lock_timeout', v_timeout, true);
    EXCEPTION
        WHEN SQLSTATE 'PGQ07' THEN
            refusal := pgqueue_refusal('PGQ07', format('there is no message %s to wait for', v_missing),
                'It was never committed, retention has dropped it, or nothing was archived of it (archive = none).');
        WHEN lock_not_available OR deadlock_detected THEN
            refusal := pgqueue_refusal('PGQ06', 'another transaction settles a message that this one is to wait for',
                'Try again when that transaction has ended.');
    END;
    IF refusal IS NOT NULL THEN
        id := NULL;
        created_at := NULL;
        dropped_ids := NULL;
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    UPDATE pgqueue_message AS m
    SET waits_for = -2, flow = -abs(coalesce(m.flow, 0)),
        dequeue_at = coalesce(p_dequeue_at, m.created_at + coalesce(p_delay, '0'))
    WHERE m.id = v_id;
    INSERT INTO pgqueue_batch (id, sealed_at, total, policy)
    VALUES (-v_id, clock_timestamp(), cardinality(v_ids), p_on_dead);
    INSERT INTO pgqueue_batch_member (batch_id, member_id) SELECT -v_id, u FROM unnest(v_live) AS u;
    IF cardinality(v_live) = cardinality(v_ids) AND v_live <> '{}' THEN
        RETURN;
    END IF;
    INSERT INTO pgqueue_batch_member (batch_id, member_id)
    SELECT -v_id, d.id FROM pgqueue_dead_letter AS d WHERE d.id = ANY (v_ids) AND p_on_dead = 'wait';
    INSERT INTO pgqueue_batch_lost (batch_id, member_id, outcome)
    SELECT -v_id, u.id, coalesce(a.outcome, CASE WHEN d.id IS NOT NULL THEN 'dead' ELSE 'dropped' END)
    FROM unnest(v_ids) AS u (id)
    LEFT JOIN pgqueue_dead_letter AS d ON d.id = u.id
    LEFT JOIN LATERAL (
        SELECT n.outcome FROM pgqueue_archived_message AS n WHERE n.id = u.id LIMIT 1
    ) AS a ON true
    WHERE (a.outcome IN ('completed', 'popped')) IS NOT TRUE
        AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = -v_id AND m.member_id = u.id);
    -- No other transaction sees it yet, so there is nothing to wait for.
    PERFORM pgqueue_batch_finish(-v_id);
    PERFORM pgqueue_after_settled(ARRAY[v_id], 'cancelled')
    FROM pgqueue_batch AS b WHERE b.id = -v_id AND b.finished_at IS NOT NULL;
END;
$$;
