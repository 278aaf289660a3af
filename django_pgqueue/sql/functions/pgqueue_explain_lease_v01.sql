-- Names the worker that holds a leased message, the end of the lease, and whether the worker lives.
-- Locks: none.
CREATE FUNCTION pgqueue_explain_lease(p_id bigint, p_alive interval)
RETURNS TABLE (code text, sentence text, facts jsonb)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_lease record;
BEGIN
    SELECT coalesce(m.worker, '?') AS worker, m.leased_at, m.lease_expires_at, m.lease_expires_at <= v_now AS expired,
        m.attempts, m.max_attempts, m.cancelled_at, m.cancel_reason, w.heartbeat_at,
        -- The row names the hundred that run longest: one that is not there need not wait when there are as many.
        w.heartbeat_at > m.leased_at AND NOT w.running @? '$[99]' AS is_told,
        jsonb_path_query_first(w.running, '$[*] ? (@.id == $id).seconds', jsonb_build_object('id', p_id)) AS seconds
    INTO v_lease
    FROM pgqueue_message AS m
    LEFT JOIN pgqueue_worker AS w ON w.name = m.worker
    WHERE m.id = p_id;
    RETURN QUERY SELECT CASE WHEN v_lease.expired THEN 'lease_expired' ELSE 'leased' END,
        CASE
            WHEN v_lease.expired THEN format(
                'The lease of worker %s expired at %s. The next sweep gives the message back, '
                'unless the worker settles it before.',
                v_lease.worker, date_trunc('second', v_lease.lease_expires_at))
            ELSE format(
                'Worker %s has had it since %s, for attempt %s of %s. The lease lasts until %s.%s',
                v_lease.worker, date_trunc('second', v_lease.leased_at), v_lease.attempts, v_lease.max_attempts,
                date_trunc('second', v_lease.lease_expires_at),
                CASE
                    WHEN v_lease.seconds IS NOT NULL THEN format(' It had run for %s s at the last heartbeat.',
                        v_lease.seconds)
                    WHEN v_lease.is_told THEN ' It waits in the buffer of the worker.'
                END)
        END,
        jsonb_build_object('worker', v_lease.worker, 'leased_at', v_lease.leased_at,
            'lease_expires_at', v_lease.lease_expires_at, 'attempt', v_lease.attempts,
            'max_attempts', v_lease.max_attempts, 'running_seconds', v_lease.seconds);
    IF v_lease.expired THEN
        RETURN QUERY SELECT n.* FROM pgqueue_explain_maintenance() AS n;
    END IF;
    IF v_lease.heartbeat_at < v_now - p_alive THEN
        RETURN QUERY SELECT 'worker_silent',
            format('Worker %s sent its last heartbeat at %s: it may be dead.', v_lease.worker,
                date_trunc('second', v_lease.heartbeat_at)),
            jsonb_build_object('worker', v_lease.worker, 'heartbeat_at', v_lease.heartbeat_at);
    END IF;
    IF v_lease.cancelled_at IS NOT NULL THEN
        RETURN QUERY SELECT 'cancelling',
            format('Its cancellation was requested at %s: its worker is asked to stop, and it is not delivered '
                'again.%s',
                date_trunc('second', v_lease.cancelled_at),
                ' Reason: ' || left(nullif(v_lease.cancel_reason, ''), 500)),
            jsonb_build_object('cancelled_at', v_lease.cancelled_at, 'reason', v_lease.cancel_reason);
    END IF;
END;
$$;
