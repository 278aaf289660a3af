-- Explains why the workers of a queue take no message: there are none, all are paused, or all are busy.
-- p_channel: a stream may consume it without a worker. Consumers by plain SQL are not seen.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_workers(p_queue text, p_channel text, p_alive interval)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_workers record;
    v_is_streamed boolean := false;
BEGIN
    SELECT count(*) FILTER (WHERE n.alive) AS alive,
        count(*) FILTER (WHERE n.alive AND n.paused) AS paused,
        count(*) FILTER (WHERE n.alive AND NOT n.paused AND n.running >= n.concurrency) AS busy,
        sum(n.running) FILTER (WHERE n.alive AND NOT n.paused) AS running,
        max(n.seconds) FILTER (WHERE n.alive AND NOT n.paused) AS seconds,
        count(*) FILTER (WHERE n.state = 'stopping') AS stopping,
        max(n.heartbeat_at) AS heartbeat_at,
        string_agg(DISTINCT nullif(n.pause_reason, ''), '; ') FILTER (WHERE n.alive AND n.paused) AS reason
    INTO v_workers
    FROM (
        SELECT w.state, w.heartbeat_at, w.concurrency, w.pause_reason, w.paused_at IS NOT NULL AS paused,
            w.heartbeat_at > v_now - p_alive AND w.state <> 'stopping' AS alive,
            CASE WHEN jsonb_typeof(w.running) = 'array' THEN jsonb_array_length(w.running) ELSE 0 END AS running,
            -- The longest running is the first.
            (w.running -> 0 ->> 'seconds')::numeric AS seconds
        FROM pgqueue_worker AS w
        WHERE w.queues ? p_queue
    ) AS n;
    IF v_workers.alive = 0 THEN
        IF to_regproc('pgqueue_is_streamed') IS NOT NULL THEN
            v_is_streamed := pgqueue_is_streamed(p_queue, p_channel);
        END IF;
        RETURN QUERY SELECT 'no_worker',
            format('No worker serves queue %s.%s%s', p_queue,
                ' The last heartbeat of one was at ' || date_trunc('second', v_workers.heartbeat_at)::text || '.',
                CASE WHEN v_workers.stopping > 0 THEN format(' Stopping: %s.', v_workers.stopping) END),
            jsonb_build_object('queue', p_queue, 'heartbeat_at', v_workers.heartbeat_at, 'stopping', v_workers.stopping)
        WHERE NOT v_is_streamed;
    ELSIF v_workers.paused = v_workers.alive THEN
        RETURN QUERY SELECT 'workers_paused',
            format('All workers of queue %s (%s) are paused.%s', p_queue, v_workers.paused,
                ' Reason: ' || left(v_workers.reason, 500)),
            jsonb_build_object('queue', p_queue, 'workers', v_workers.alive, 'reason', v_workers.reason);
    ELSIF v_workers.busy = v_workers.alive - v_workers.paused THEN
        RETURN QUERY SELECT 'workers_busy',
            format('All workers of queue %s (%s) are busy: they run %s messages, the longest for %s s.', p_queue,
                v_workers.busy, v_workers.running, v_workers.seconds),
            jsonb_build_object('queue', p_queue, 'workers', v_workers.busy, 'running', v_workers.running,
                'longest_seconds', v_workers.seconds);
    END IF;
END;
$$;
