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
    m pgqueue_message;
    w record;
    v_error jsonb;
    v_ticked_at timestamptz;
    v_is_scheduled boolean;
    v_waits boolean := false;
    v_is_unknown boolean;
    v_next integer;
    v_silent text[];
    v_blocked jsonb;
BEGIN
    SELECT n.* INTO m FROM pgqueue_message AS n WHERE n.id = p_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT a.outcome::text,
            format('It was %s at %s%s, %s.%s%s', a.outcome, date_trunc('second', a.archived_at),
                ' by worker ' || a.worker,
                CASE WHEN a.attempts = 0 THEN 'before any delivery'
                    ELSE format('at attempt %s of %s', a.attempts, a.max_attempts) END,
                CASE WHEN a.outcome = 'cancelled' THEN ' Reason: ' || left(a.result ->> 'reason', 500) END,
                CASE WHEN a.payload IS NULL THEN ' Its payload was not archived.' END),
            jsonb_build_object('at', a.archived_at, 'queue', a.queue, 'channel', a.channel, 'worker', a.worker,
                'attempts', a.attempts, 'max_attempts', a.max_attempts, 'redriven_from', a.redriven_from)
        FROM pgqueue_archived_message AS a WHERE a.id = p_id;
        IF FOUND THEN
            RETURN;
        END IF;
        RETURN QUERY SELECT n.* FROM pgqueue_dead_letter AS d CROSS JOIN LATERAL (VALUES
            ('dead',
                format('It became a dead letter at %s%s, at attempt %s of %s%s: %s.%s', date_trunc('second', d.dead_at),
                    ' by worker ' || d.worker, d.attempts, d.max_attempts,
                    ' and after ' || nullif(pgqueue_interruptions(d.errors), 0) || ' interruption(s)', d.reason,
                    ' ' || nullif(left(
                        coalesce(d.details ->> 'message', d.errors -> -1 ->> 'message'), 500), '')),
                jsonb_build_object('at', d.dead_at, 'queue', d.queue, 'channel', d.channel, 'worker', d.worker,
                    'attempts', d.attempts, 'max_attempts', d.max_attempts, 'reason', d.reason,
                    'interruptions', pgqueue_interruptions(d.errors),
                    'redriven_from', d.redriven_from)),
            ('redriven',
                format('It was redriven at %s: message %s is the new one.', date_trunc('second', d.redriven_at),
                    d.redriven_to),
                jsonb_build_object('at', d.redriven_at, 'redriven_to', d.redriven_to))) AS n (code, sentence, facts)
        WHERE d.id = p_id AND (n.code = 'dead' OR d.redriven_at IS NOT NULL);
        IF FOUND THEN
            RETURN;
        END IF;
        v_silent := ARRAY(
            SELECT format('queue "%s"', q.name) FROM pgqueue_queue AS q WHERE q.archive = 'none'
            UNION ALL
            SELECT format('channel "%s" of queue "%s"', c.name, c.queue) FROM pgqueue_channel AS c
            WHERE c.archive = 'none'
            LIMIT 4);
        RETURN QUERY SELECT 'unknown',
            format('There is no message %s: ', p_id) || CASE
                WHEN p_id > s.last_value THEN format('the newest id that was given out is %s.', s.last_value)
                ELSE format('its transaction was rolled back or has not committed yet, retention has dropped it, '
                    'or it was settled and nothing was archived of it (archive = none%s%s).',
                    ', as is set for ' || nullif(array_to_string(v_silent[:3], ', '), ''),
                    CASE WHEN cardinality(v_silent) > 3 THEN ' and others' END)
            END,
            jsonb_build_object('newest_id', s.last_value, 'archive_none', to_jsonb(v_silent))
        FROM pgqueue_message_id_seq AS s;
        RETURN;
    END IF;

    v_error := m.errors -> -1;
    v_is_unknown := m.status <> 2 AND coalesce(v_error ->> 'type' LIKE '%UnknownHandler', false);
    v_next := m.attempts + (m.status <> 2)::integer;
    v_is_scheduled := m.status = 3 AND m.dequeue_at > v_now;
    SELECT max(o.ticked_at) INTO v_ticked_at FROM pgqueue_floor AS o;
    IF m.status <> 2 AND NOT v_is_scheduled THEN
        RETURN QUERY SELECT n.code, n.sentence, n.facts FROM pgqueue_explain_waits(m, false) AS n;
        v_waits := FOUND;
    END IF;
    IF m.status <> 2 AND (m.flow <= 0 OR m.waits_for = -2) THEN
        IF to_regproc('pgqueue_after_explain') IS NOT NULL THEN
            v_blocked := pgqueue_after_explain(p_id);
        END IF;
        v_waits := v_waits OR m.waits_for IS NOT DISTINCT FROM -2;
    END IF;
    -- The row of the worker names the hundred that run longest: one that is not there need not wait when there are as
    -- many.
    SELECT n.heartbeat_at, n.heartbeat_at > m.leased_at AND NOT n.running @? '$[99]' AS is_told,
        jsonb_path_query_first(n.running, '$[*] ? (@.id == $id).seconds', jsonb_build_object('id', p_id)) AS seconds
    INTO w
    FROM (SELECT) AS o LEFT JOIN pgqueue_worker AS n ON m.status = 2 AND n.name = m.worker;
    RETURN QUERY SELECT n.code, n.sentence, n.facts FROM (VALUES
    (v_blocked IS NOT NULL, 'blocked', v_blocked ->> 'sentence', v_blocked -> 'facts'),
    (v_is_scheduled, 'scheduled',
        format('It is scheduled for %s, in %s.', date_trunc('second', m.dequeue_at),
            date_trunc('second', pgqueue_clamp_time(m.dequeue_at) - v_now)),
        jsonb_build_object('dequeue_at', m.dequeue_at)),
    (m.status = 3 AND NOT v_is_scheduled AND NOT v_waits, 'due',
        format('It was due at %s and is not promoted yet: the next tick does it, or a dequeue that finds too few '
            'messages.', date_trunc('second', m.dequeue_at)),
        jsonb_build_object('dequeue_at', m.dequeue_at)),
    (m.status = 2, CASE WHEN m.lease_expires_at > v_now THEN 'leased' ELSE 'lease_expired' END,
        CASE
            WHEN m.lease_expires_at > v_now THEN format(
                'Worker %s has had it since %s, for attempt %s of %s. The lease lasts until %s.%s',
                coalesce(m.worker, '?'), date_trunc('second', m.leased_at), m.attempts, m.max_attempts,
                date_trunc('second', m.lease_expires_at), CASE
                    WHEN w.seconds IS NOT NULL THEN format(' It had run for %s s at the last heartbeat.', w.seconds)
                    WHEN w.is_told THEN ' It waits in the buffer of the worker.' END)
            ELSE format('The lease of worker %s expired at %s. The next sweep gives the message back, unless the '
                'worker settles it before.', coalesce(m.worker, '?'), date_trunc('second', m.lease_expires_at))
        END,
        jsonb_build_object('worker', coalesce(m.worker, '?'), 'leased_at', m.leased_at,
            'lease_expires_at', m.lease_expires_at, 'attempt', m.attempts, 'max_attempts', m.max_attempts,
            'running_seconds', w.seconds)),
    ((m.status = 2 AND m.lease_expires_at <= v_now OR m.status = 3 AND NOT v_is_scheduled AND NOT v_waits)
        AND coalesce(v_ticked_at, '-infinity') < v_now - interval '10 seconds', 'no_maintenance',
        format('No maintenance has run%s: start a worker, or call pgqueue_sweep by cron.',
            ' since ' || date_trunc('second', v_ticked_at)),
        jsonb_build_object('ticked_at', v_ticked_at)),
    (w.heartbeat_at < v_now - p_alive, 'worker_silent',
        format('Worker %s sent its last heartbeat at %s: it may be dead.', m.worker,
            date_trunc('second', w.heartbeat_at)),
        jsonb_build_object('worker', m.worker, 'heartbeat_at', w.heartbeat_at)),
    (m.status = 2 AND m.cancelled_at IS NOT NULL, 'cancelling',
        format('Its cancellation was requested at %s: its worker is asked to stop, and it is not delivered again.%s',
            date_trunc('second', m.cancelled_at), ' Reason: ' || left(nullif(m.cancel_reason, ''), 500)),
        jsonb_build_object('cancelled_at', m.cancelled_at, 'reason', m.cancel_reason))
    ) AS n (holds, code, sentence, facts)
    WHERE n.holds;
    IF m.status <> 2 THEN
        -- Limits will not be the same when the time of a scheduled message has come.
        RETURN QUERY SELECT o.* FROM pgqueue_explain_obstacles(m.channel_id, p_id, m.status = 1, p_alive) AS o
        WHERE NOT v_is_scheduled OR o.code NOT IN ('concurrency', 'rate', 'workers_busy', 'ordered');
    END IF;
    RETURN QUERY SELECT n.code, n.sentence, n.facts FROM (VALUES
    (v_next >= m.max_attempts AND m.attempts > 0, 'last_attempt',
        format(CASE m.status
            WHEN 2 THEN 'This attempt is its last (%s of %s): if it fails, or its worker dies, it becomes a dead '
                'letter.'
            ELSE 'Its next attempt is the last (%s of %s): if it fails, it becomes a dead letter.' END,
            v_next, m.max_attempts),
        jsonb_build_object('attempt', v_next, 'max_attempts', m.max_attempts)),
    (v_is_unknown, 'unknown_handler',
        format('The workers that took it since %s do not know its handler %s. A worker that knows it gets it when it '
            'is due; else it becomes a dead letter when UNKNOWN_HANDLER_GRACE has passed.',
            date_trunc('second', CASE WHEN v_is_unknown THEN (v_error ->> 'at')::timestamptz END), m.handler),
        jsonb_build_object('handler', m.handler, 'since', v_error -> 'at', 'worker', v_error -> 'worker')),
    (v_error ? 'attempt' AND NOT v_is_unknown, 'failed_before',
        format('Attempt %s failed: %s', v_error ->> 'attempt',
            left(concat_ws(': ', v_error ->> 'type', v_error ->> 'message'), 500)),
        jsonb_build_object('attempt', v_error -> 'attempt', 'at', v_error -> 'at', 'worker', v_error -> 'worker',
            'type', v_error -> 'type', 'message', v_error -> 'message')),
    (m.errors @? '$[*].interruption', 'interrupted',
        format('It was interrupted %s time(s) because its worker stopped; its attempts do not count that.',
            pgqueue_interruptions(m.errors)),
        jsonb_build_object('interruptions', pgqueue_interruptions(m.errors)))
    ) AS n (holds, code, sentence, facts)
    WHERE n.holds;
END;
$$;
