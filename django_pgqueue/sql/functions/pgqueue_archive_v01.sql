-- Moves messages that the caller has locked to the archive, in any status, as far as their channel or queue keeps them.
-- p_outcome: popped | purged | cancelled | dropped. p_archive, p_ran_seconds: as in pgqueue_complete.
-- Returns the number of messages that were moved.
-- Locks: none beyond those that the caller holds.
CREATE FUNCTION pgqueue_archive(
    p_ids bigint[], p_outcome text, p_archive text DEFAULT NULL, p_ran_seconds double precision[] DEFAULT NULL
)
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
    v_unarchived jsonb;
    v_events boolean;
    v_archives jsonb;
    v_keys pgqueue_order_note[];
    v_flows bigint[];
    v_members bigint[];
BEGIN
    SELECT bool_or(q.events), jsonb_object_agg(q.name, q.archive) INTO v_events, v_archives
    FROM pgqueue_queue AS q
    WHERE q.events OR q.archive <> 'full';
    -- Deletes the messages.
    WITH settled AS (
        DELETE FROM pgqueue_message AS m WHERE m.id = ANY (p_ids) RETURNING m.*
    ),
    -- Adds the queue, the channel, and how much the archive keeps.
    placed AS (
        SELECT s.*, pgqueue_started_at(v_now, s.leased_at, p_ran_seconds[array_position(p_ids, s.id)]) AS started_at,
            coalesce(c.queue, '') AS queue, coalesce(c.name, '') AS channel,
            coalesce(p_archive, c.archive, v_archives ->> c.queue, 'full') AS archive
        FROM settled AS s
        LEFT JOIN pgqueue_channel AS c ON c.id = s.channel_id
    ),
    -- Archives them, unless the setting is none.
    archived AS (
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
            dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
            redriven_from, started_at, order_key, limits, cost)
        SELECT n.id, n.queue, n.channel, n.handler, CASE WHEN n.archive = 'full' THEN n.payload END,
            CASE WHEN n.archive = 'full' THEN n.body END,
            CASE WHEN n.archive = 'full' THEN n.headers END, n.priority, n.attempts, n.max_attempts, n.created_at,
            n.dequeue_at, n.leased_at, n.lease_token, v_now, p_outcome,
            CASE WHEN n.cancel_reason <> '' THEN jsonb_build_object('reason', n.cancel_reason) END,
            CASE WHEN n.archive = 'full' THEN n.state END,
            CASE WHEN n.archive = 'full' OR n.errors IS NULL THEN n.errors ELSE pgqueue_bare_errors(n.errors) END,
            n.dedupe_key, n.worker, n.redriven_from, n.started_at, n.order_key, n.limits, n.cost
        FROM placed AS n
        WHERE n.archive <> 'none'
    )
    SELECT array_agg(n.channel_id),
        array_agg(ROW(n.channel_id, n.order_key)::pgqueue_order_note) FILTER (WHERE n.order_key IS NOT NULL),
        jsonb_agg(jsonb_build_object('id', n.id, 'queue', n.queue, 'channel', n.channel, 'handler', n.handler,
            'attempts', n.attempts, 'dequeue_at', n.dequeue_at, 'leased_at', n.leased_at,
            'started_at', n.started_at))
            FILTER (WHERE n.archive = 'none'),
        array_agg(n.flow) FILTER (WHERE n.flow IS NOT NULL), array_agg(n.id) FILTER (WHERE n.flow IS NOT NULL)
    INTO v_channels, v_keys, v_unarchived, v_flows, v_members
    FROM placed AS n;
    PERFORM pgqueue_record_departures(v_channels);
    IF v_keys IS NOT NULL THEN
        PERFORM pgqueue_release_keys(v_keys, true);
    END IF;
    IF v_unarchived IS NOT NULL THEN
        PERFORM pgqueue_note_unarchived(p_outcome, v_unarchived, v_now);
    END IF;
    IF v_events THEN
        PERFORM pgqueue_publish(p_outcome, p_ids, v_now, v_unarchived);
    END IF;
    IF v_flows IS NOT NULL THEN
        PERFORM pgqueue_flow_settled(v_flows, v_members, p_outcome);
    END IF;
    RETURN coalesce(cardinality(v_channels), 0);
END;
$$;
