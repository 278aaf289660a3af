-- Takes expired leases back, the longest expired first: each message goes through its retry policy, as after an
-- exception, or becomes a dead letter with the reason poison when its attempts are used up, or goes to the archive when
-- its cancellation was requested.
-- It takes at most p_limit leases that expired from p_from to p_now; pgqueue_bring_back passes its floor and clock.
-- p_queue: the leases of this queue among the first 1,000. p_worker: leases that this worker held less than 5 seconds
-- ago are left out: it may be late with a heartbeat only, and would be given a message whose handler it still runs.
-- Returns the number of each kind. The server log reports them.
-- Locks: messages, SKIP LOCKED: a settlement under way wins.
CREATE FUNCTION pgqueue_reclaim(
    p_limit integer,
    p_from timestamptz DEFAULT '-infinity',
    p_now timestamptz DEFAULT NULL,
    p_queue text DEFAULT NULL,
    p_worker text DEFAULT NULL,
    OUT retried integer,
    OUT poisoned integer,
    OUT cancelled integer
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids bigint[];
    v_tokens uuid[];
    v_errors jsonb[];
BEGIN
    retried := 0;
    poisoned := 0;
    cancelled := 0;
    SELECT array_agg(e.id ORDER BY e.id), array_agg(e.lease_token ORDER BY e.id),
        array_agg(jsonb_build_object(
            'type', 'LeaseExpired', 'message', format('the lease of worker %s expired at %s', coalesce(e.worker, '?'),
                e.lease_expires_at))
            ORDER BY e.id)
    INTO v_ids, v_tokens, v_errors
    FROM (
        SELECT m.id, m.lease_token, m.worker, m.lease_expires_at
        FROM (
            SELECT m.id, m.channel_id, m.lease_expires_at FROM pgqueue_message AS m
            WHERE m.lease_expires_at >= p_from AND m.lease_expires_at <= v_now
            -- A sweep goes on behind all that another transaction has locked; a dequeue looks at so many.
            ORDER BY m.lease_expires_at LIMIT CASE WHEN p_queue IS NOT NULL THEN 1000 END
        ) AS x
        -- LATERAL keeps the order, and looks each message up by its key, however small the statistics say that the
        -- table is.
        CROSS JOIN LATERAL (
            SELECT m.id, m.lease_token, m.worker, m.lease_expires_at FROM pgqueue_message AS m
            WHERE m.id = x.id AND m.lease_expires_at <= v_now
                AND (p_queue IS NULL OR p_queue = (SELECT c.queue FROM pgqueue_channel AS c WHERE c.id = x.channel_id))
                AND (p_worker IS NULL OR m.worker IS DISTINCT FROM p_worker
                    OR v_now - interval '5 seconds' >= m.lease_expires_at)
            FOR UPDATE SKIP LOCKED
        ) AS m
        LIMIT p_limit
    ) AS e;
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*) FILTER (WHERE r.outcome = 'retried'), count(*) FILTER (WHERE r.outcome = 'dead_lettered'),
        count(*) FILTER (WHERE r.outcome = 'cancelled')
    INTO retried, poisoned, cancelled
    FROM pgqueue_retry(v_ids, v_tokens, v_errors, NULL, 'poison', p_swept => true) AS r;
    IF pgqueue_may_warn('lease_expired') THEN
        RAISE WARNING 'pgqueue: the leases of % message(s) expired (%): '
            '% to be retried, % dead-lettered as poison, % cancelled',
            cardinality(v_ids), array_to_string(v_ids[1:10], ', '), retried, poisoned, cancelled
            USING HINT = 'A worker died, hangs or lost its connection. '
                'More warnings of this kind are held back for 10 seconds.';
    END IF;
END;
$$;
