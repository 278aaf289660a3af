-- Moves messages to the archive, as far as their channel or queue keeps them, and says so to what waited for them. The
-- caller has locked them, in any status; or it names the leases, and only what it still holds is moved.
-- p_outcome: completed | cancelled | popped | purged | dropped. p_archive, p_ran_seconds, p_tokens, p_results: as in
--   pgqueue_complete; p_tokens NULL: the caller has locked the messages.
-- Returns the ids of the messages that were moved; NULL if there are none.
-- Locks: the messages, if the caller has not locked them; nothing else.
CREATE FUNCTION pgqueue_archive(
    p_ids bigint[],
    p_outcome text,
    p_archive text DEFAULT NULL,
    p_ran_seconds double precision[] DEFAULT NULL,
    p_tokens uuid[] DEFAULT NULL,
    p_results jsonb[] DEFAULT NULL
)
RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_done bigint[];
    v_limited bigint[];
    v_unarchived jsonb;
    v_ended pgqueue_ended[];
    v_events boolean;
    v_archives jsonb;
    v_counted text[];
    v_limited_handlers text[];
    v_watched text[];
    v_flows bigint[];
    v_members bigint[];
    v_keys pgqueue_order_note[];
BEGIN
    -- For most queues this look is cheap: the index is empty.
    SELECT bool_or(q.events), jsonb_object_agg(q.name, q.archive),
        array_agg(q.name) FILTER (WHERE q.max_concurrency IS NOT NULL OR q.max_share IS NOT NULL)
    INTO v_events, v_archives, v_counted
    FROM pgqueue_queue AS q
    WHERE q.events OR q.archive <> 'full' OR q.max_concurrency IS NOT NULL OR q.max_share IS NOT NULL;
    SELECT array_agg(h.handler) FILTER (WHERE NOT h.breaker), array_agg(h.handler) FILTER (WHERE h.breaker)
    INTO v_limited_handlers, v_watched FROM pgqueue_limit_handler AS h;
    -- Deletes the messages that the caller holds.
    WITH settled AS (
        DELETE FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND (p_tokens IS NULL OR m.lease_token = p_tokens[array_position(p_ids, m.id)])
        RETURNING m.*, CASE WHEN p_results IS NOT NULL OR p_ran_seconds IS NOT NULL THEN array_position(p_ids, m.id) END
            AS place
    ),
    -- Adds the queue and the channel, by a left join: a message must not vanish because its channel was deleted.
    placed AS (
        SELECT s.*, coalesce(c.queue, '') AS queue, coalesce(c.name, '') AS channel, p_results[s.place] AS result,
            pgqueue_started_at(v_now, s.leased_at, p_ran_seconds[s.place]) AS started_at,
            p_tokens IS NULL OR c.max_concurrency IS NOT NULL OR c.max_size IS NOT NULL OR c.queue = ANY (v_counted)
                OR s.limits IS NOT NULL OR s.handler = ANY (v_limited_handlers) AS limited,
            coalesce(p_archive, c.archive, v_archives ->> c.queue, 'full') AS archive
        FROM settled AS s LEFT JOIN pgqueue_channel AS c ON c.id = s.channel_id
    ),
    -- Archives them, unless the setting is none.
    archived AS (
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
            dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
            redriven_from, started_at, order_key, limits, cost)
        SELECT n.id, n.queue, n.channel, n.handler, CASE WHEN n.archive = 'full' THEN n.payload END,
            CASE WHEN n.archive = 'full' THEN n.body END, CASE WHEN n.archive = 'full' THEN n.headers END, n.priority,
            n.attempts, n.max_attempts, n.created_at, n.dequeue_at, n.leased_at, n.lease_token, v_now, p_outcome,
            CASE
                WHEN n.archive = 'full' AND n.result IS NOT NULL THEN n.result
                WHEN p_outcome = 'cancelled' AND coalesce(n.result ->> 'reason', n.cancel_reason) <> '' THEN
                    jsonb_build_object('reason', coalesce(n.result ->> 'reason', n.cancel_reason))
            END,
            CASE WHEN n.archive = 'full' THEN n.state END,
            CASE WHEN n.archive = 'full' OR n.errors IS NULL THEN n.errors ELSE pgqueue_bare_errors(n.errors) END,
            n.dedupe_key, n.worker, n.redriven_from, n.started_at, n.order_key, n.limits, n.cost
        FROM placed AS n
        WHERE n.archive <> 'none'
    )
    SELECT array_agg(n.id), array_agg(n.channel_id) FILTER (WHERE n.limited),
        array_agg(ROW(n.channel_id, n.order_key)::pgqueue_order_note) FILTER (WHERE n.order_key IS NOT NULL),
        jsonb_agg(jsonb_build_object('id', n.id, 'queue', n.queue, 'channel', n.channel, 'handler', n.handler,
            'attempts', n.attempts, 'dequeue_at', n.dequeue_at, 'leased_at', n.leased_at, 'started_at', n.started_at))
            FILTER (WHERE n.archive = 'none'),
        array_agg(ROW(n.handler, n.channel_id, n.id, n.leased_at)::pgqueue_ended)
            FILTER (WHERE p_outcome = 'completed' AND n.handler = ANY (v_watched)),
        array_agg(n.flow) FILTER (WHERE n.flow IS NOT NULL), array_agg(n.id) FILTER (WHERE n.flow IS NOT NULL)
    INTO v_done, v_limited, v_keys, v_unarchived, v_ended, v_flows, v_members FROM placed AS n;
    IF v_limited IS NOT NULL THEN PERFORM pgqueue_record_departures(v_limited); END IF;
    IF v_ended IS NOT NULL THEN PERFORM pgqueue_record_outcomes(v_ended, false); END IF;
    IF v_keys IS NOT NULL THEN PERFORM pgqueue_release_keys(v_keys, true); END IF;
    -- What is settled without an archive counts all the same: one row for those of a channel and handler.
    IF v_unarchived IS NOT NULL THEN
        INSERT INTO pgqueue_unarchived (queue, channel, handler, outcome, settled_at, attempts, waits, runs)
        SELECT m.queue, m.channel, m.handler, p_outcome, v_now, array_agg(m.attempts),
            array_agg(date_part('epoch', coalesce(m.started_at, m.leased_at)) - date_part('epoch', m.dequeue_at)),
            array_agg(date_part('epoch', v_now) - date_part('epoch', coalesce(m.started_at, m.leased_at)))
        FROM jsonb_to_recordset(v_unarchived) AS m (queue text, channel text, handler text, attempts integer,
            dequeue_at timestamptz, leased_at timestamptz, started_at timestamptz)
        GROUP BY m.queue, m.channel, m.handler;
    END IF;
    IF v_events THEN PERFORM pgqueue_publish(p_outcome, v_done, v_now, v_unarchived); END IF;
    IF v_flows IS NOT NULL THEN PERFORM pgqueue_flow_settled(v_flows, v_members, p_outcome); END IF;
    RETURN v_done;
END;
$$;
