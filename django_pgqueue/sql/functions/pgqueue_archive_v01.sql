-- Moves messages that the caller has locked to the archive, whatever their status.
-- Caller: pgqueue_pop, pgqueue_purge, pgqueue_queue_purge, pgqueue_cancel; pgqueue_enqueue and pgqueue_drop_surplus for what leaves a full
--   channel; pgqueue_defer and pgqueue_retry for what somebody wants cancelled.
-- p_outcome: popped | purged | cancelled | dropped. Returns how many. Locks: none that the caller does not hold.
CREATE FUNCTION pgqueue_archive(p_ids bigint[], p_outcome text)
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_channels bigint[];
BEGIN
    WITH settled AS (
        DELETE FROM pgqueue_message AS m WHERE m.id = ANY (p_ids) RETURNING m.*
    ),
    archived AS (
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at, dequeue_at,
            leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker, redriven_from)
        SELECT s.id, coalesce(c.queue, ''), coalesce(c.name, ''), s.handler, s.payload, s.body, s.headers, s.priority, s.attempts,
            s.max_attempts, s.created_at, s.dequeue_at, s.leased_at, s.lease_token, v_now, p_outcome,
            CASE WHEN s.cancel_reason <> '' THEN jsonb_build_object('reason', s.cancel_reason) END, s.state, s.errors, s.dedupe_key,
            s.worker, s.redriven_from
        FROM settled AS s
        LEFT JOIN pgqueue_channel AS c ON c.id = s.channel_id
    )
    SELECT array_agg(s.channel_id) INTO v_channels FROM settled AS s;
    PERFORM pgqueue_depart(v_channels);
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) THEN
        PERFORM pgqueue_publish(p_outcome, p_ids, v_now);
    END IF;
    RETURN coalesce(cardinality(v_channels), 0);
END;
$$;
