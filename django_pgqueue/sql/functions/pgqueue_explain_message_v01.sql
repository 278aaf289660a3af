-- Explains why a message is not running, or how it was settled: its state first, then the obstacles, then its place in
-- the line.
-- p_alive: a worker that was silent for longer counts as dead.
-- Returns a code, a sentence, and the facts of the sentence as JSON. Its cost is bounded: look-ups, and counts that
--   stop at 1,000.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_message(p_id bigint, p_alive interval DEFAULT '15 seconds')
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET IntervalStyle = postgres
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_message record;
    v_blocked boolean;
BEGIN
    SELECT m.channel_id, m.status, m.dequeue_at, m.attempts, m.max_attempts, m.handler, m.errors -> -1 AS error
    INTO v_message
    FROM pgqueue_message AS m
    WHERE m.id = p_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT s.* FROM pgqueue_explain_settled(p_id) AS s;
        RETURN;
    END IF;
    IF v_message.status = 2 THEN
        RETURN QUERY SELECT l.* FROM pgqueue_explain_lease(p_id, p_alive) AS l;
    ELSIF v_message.status = 3 AND v_message.dequeue_at > v_now THEN
        RETURN QUERY SELECT 'scheduled',
            format('It is scheduled for %s, in %s.', date_trunc('second', v_message.dequeue_at),
                date_trunc('second', pgqueue_clamp_time(v_message.dequeue_at) - v_now)),
            jsonb_build_object('dequeue_at', v_message.dequeue_at);
        -- These obstacles will still be there when its time has come.
        RETURN QUERY SELECT o.* FROM pgqueue_explain_obstacles(v_message.channel_id, p_alive) AS o
        WHERE o.code NOT IN ('concurrency', 'rate', 'workers_busy', 'ordered');
    ELSE
        RETURN QUERY SELECT l.* FROM pgqueue_message AS m CROSS JOIN LATERAL (
            SELECT k.* FROM pgqueue_explain_order_key(m) AS k
            UNION ALL
            SELECT s.* FROM pgqueue_explain_shared_limits(m) AS s) AS l
        WHERE m.id = p_id;
        IF v_message.status = 3 AND NOT FOUND THEN
            RETURN QUERY SELECT 'due',
                format('It was due at %s and is not promoted yet: '
                    'the next tick does it, or a dequeue that finds too few messages.',
                    date_trunc('second', v_message.dequeue_at)),
                jsonb_build_object('dequeue_at', v_message.dequeue_at);
            RETURN QUERY SELECT n.* FROM pgqueue_explain_maintenance() AS n;
        END IF;
        RETURN QUERY SELECT o.* FROM pgqueue_explain_obstacles(v_message.channel_id, p_alive) AS o;
        v_blocked := FOUND;
        IF v_message.status = 1 THEN
            RETURN QUERY SELECT p.* FROM pgqueue_explain_place(v_message.channel_id, p_id, v_blocked) AS p;
        END IF;
    END IF;
    IF v_message.status = 2 AND v_message.attempts >= v_message.max_attempts THEN
        RETURN QUERY SELECT 'last_attempt',
            format('This attempt is its last (%s of %s): if it fails, or its worker dies, it becomes a dead letter.',
                v_message.attempts, v_message.max_attempts),
            jsonb_build_object('attempt', v_message.attempts, 'max_attempts', v_message.max_attempts);
    ELSIF v_message.status <> 2 AND v_message.attempts > 0 AND v_message.attempts + 1 >= v_message.max_attempts THEN
        RETURN QUERY SELECT 'last_attempt',
            format('Its next attempt is the last (%s of %s): if it fails, it becomes a dead letter.',
                v_message.attempts + 1, v_message.max_attempts),
            jsonb_build_object('attempt', v_message.attempts + 1, 'max_attempts', v_message.max_attempts);
    END IF;
    IF v_message.status <> 2 AND v_message.error ->> 'type' LIKE '%UnknownHandler' THEN
        RETURN QUERY SELECT 'unknown_handler',
            format('The workers that took it since %s do not know its handler %s. A worker that knows it gets it '
                'when it is due; else it '
                'becomes a dead letter when UNKNOWN_HANDLER_GRACE has passed.',
                date_trunc('second', (v_message.error ->> 'at')::timestamptz), v_message.handler),
            jsonb_build_object('handler', v_message.handler, 'since', v_message.error -> 'at',
                'worker', v_message.error -> 'worker');
    ELSIF v_message.error ? 'attempt' THEN
        RETURN QUERY SELECT 'failed_before',
            format('Attempt %s failed: %s', v_message.error ->> 'attempt',
                left(concat_ws(': ', v_message.error ->> 'type', v_message.error ->> 'message'), 500)),
            jsonb_build_object('attempt', v_message.error -> 'attempt', 'at', v_message.error -> 'at',
                'worker', v_message.error -> 'worker', 'type', v_message.error -> 'type',
                'message', v_message.error -> 'message');
    END IF;
END;
$$;
