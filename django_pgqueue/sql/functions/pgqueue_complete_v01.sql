-- Settles leased messages as done: moves them to the archive, in one statement.
-- Caller: pgqueue_stream_settle; lifecycle.complete.
-- p_ids and p_tokens pair up. p_cancelled: settle as cancelled; without a result, stores cancel_reason. p_archive: full
-- | outcome | none, overrides the setting of the channel (its column archive) and of the queue. outcome: the archive
-- keeps no payload, body, headers, result or saved state, and bare errors.
-- Returns the ids that were completed. A lost lease raises PGQ02 and nothing is changed. With p_skip_lost it is left
--   out, except for messages that this lease has completed before, as far as they are archived.
-- Locks: the messages (lock order, step 2), in the order of ids.
-- Errors: PGQ02, PGQ07 arrays that do not pair up, or an invalid p_archive: raised, so that the writes that belong to
--   the messages cannot commit.
CREATE FUNCTION pgqueue_complete(
    p_ids bigint[],
    p_tokens uuid[],
    p_results jsonb[] DEFAULT NULL,
    p_skip_lost boolean DEFAULT false,
    p_cancelled boolean DEFAULT false,
    p_archive text DEFAULT NULL
)
RETURNS SETOF bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_done bigint[];
    v_limited bigint[];
    v_unarchived jsonb;
    v_events boolean;
    v_archives jsonb;
    v_one pgqueue_message;
    v_channel record;
    v_outcome text := CASE WHEN p_cancelled THEN 'cancelled' ELSE 'completed' END;
BEGIN
    IF cardinality(p_tokens) <> cardinality(p_ids) OR cardinality(p_results) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens', 'p_results'],
            ARRAY[cardinality(p_tokens), cardinality(p_results)])));
    END IF;
    IF p_archive IS NOT NULL AND pgqueue_archive_problem(p_archive) IS NOT NULL THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_archive_problem(p_archive)));
    END IF;
    IF cardinality(p_ids) = 1 AND NOT p_cancelled AND p_archive IS NULL THEN
        -- One message that is archived in full, the most frequent case: several short statements cost less than the
        -- large one.
        SELECT c.queue, c.name, c.max_concurrency IS NOT NULL OR c.max_size IS NOT NULL AS limited INTO v_channel
        FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
        WHERE m.id = p_ids[1] AND c.archive IS NULL
            AND NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events OR q.archive <> 'full');
        IF FOUND THEN
            DELETE FROM pgqueue_message AS m WHERE m.id = p_ids[1] AND m.lease_token = p_tokens[1]
            RETURNING m.* INTO v_one;
        END IF;
        IF v_one.id IS NOT NULL THEN
            INSERT INTO pgqueue_archived_message (
                id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
                dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
                redriven_from)
            VALUES (
                v_one.id, v_channel.queue, v_channel.name, v_one.handler, v_one.payload, v_one.body, v_one.headers,
                v_one.priority, v_one.attempts, v_one.max_attempts, v_one.created_at, v_one.dequeue_at, v_one.leased_at,
                v_one.lease_token, v_now, v_outcome, p_results[1], v_one.state, v_one.errors, v_one.dedupe_key,
                v_one.worker, v_one.redriven_from);
            IF v_channel.limited THEN
                PERFORM pgqueue_depart(ARRAY[v_one.channel_id]);
            END IF;
            RETURN NEXT v_one.id;
            RETURN;
        END IF;
    END IF;
    -- For most queues this look is cheap: the index is empty.
    SELECT bool_or(q.events), jsonb_object_agg(q.name, q.archive) INTO v_events, v_archives
    FROM pgqueue_queue AS q
    WHERE q.events OR q.archive <> 'full';
    -- Deletes the messages that the caller still holds.
    WITH settled AS (
        DELETE FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.*, CASE WHEN p_results IS NOT NULL THEN p_results[array_position(p_ids, m.id)] END AS result
    ),
    -- Adds the queue and the channel, by a left join: a message must not vanish because its channel was deleted.
    placed AS (
        SELECT s.*, coalesce(c.queue, '') AS queue, coalesce(c.name, '') AS channel,
            c.max_concurrency IS NOT NULL OR c.max_size IS NOT NULL AS limited,
            coalesce(p_archive, c.archive, v_archives ->> c.queue, 'full') AS archive
        FROM settled AS s
        LEFT JOIN pgqueue_channel AS c ON c.id = s.channel_id
    ),
    -- Archives them, unless the setting is none.
    archived AS (
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
            dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
            redriven_from)
        SELECT n.id, n.queue, n.channel, n.handler, CASE WHEN n.archive = 'full' THEN n.payload END,
            CASE WHEN n.archive = 'full' THEN n.body END,
            CASE WHEN n.archive = 'full' THEN n.headers END, n.priority, n.attempts, n.max_attempts, n.created_at,
            n.dequeue_at, n.leased_at, n.lease_token, v_now, v_outcome,
            CASE
                WHEN n.archive = 'full' AND n.result IS NOT NULL THEN n.result
                WHEN p_cancelled AND coalesce(n.result ->> 'reason', n.cancel_reason) <> '' THEN
                    jsonb_build_object('reason', coalesce(n.result ->> 'reason', n.cancel_reason))
            END,
            CASE WHEN n.archive = 'full' THEN n.state END,
            CASE WHEN n.archive = 'full' OR n.errors IS NULL THEN n.errors ELSE pgqueue_bare_errors(n.errors) END,
            n.dedupe_key, n.worker, n.redriven_from
        FROM placed AS n
        WHERE n.archive <> 'none'
    )
    SELECT array_agg(n.id), array_agg(n.channel_id) FILTER (WHERE n.limited),
        jsonb_agg(jsonb_build_object('id', n.id, 'queue', n.queue, 'channel', n.channel, 'handler', n.handler,
            'attempts', n.attempts, 'dequeue_at', n.dequeue_at, 'leased_at', n.leased_at))
            FILTER (WHERE n.archive = 'none')
    INTO v_done, v_limited, v_unarchived
    FROM placed AS n;
    IF NOT p_skip_lost AND coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_done);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM pgqueue_depart(v_limited);
    END IF;
    IF v_unarchived IS NOT NULL THEN
        PERFORM pgqueue_note_unarchived(v_outcome, v_unarchived, v_now);
    END IF;
    IF v_events THEN
        PERFORM pgqueue_publish(v_outcome, v_done, v_now, v_unarchived);
    END IF;
    RETURN QUERY SELECT unnest(v_done);
    IF coalesce(cardinality(v_done), 0) < cardinality(p_ids) THEN
        RETURN QUERY
        SELECT b.id FROM pgqueue_settled_before(p_ids, p_tokens, v_done) AS b
        WHERE b.outcome IN ('completed', 'cancelled');
    END IF;
END;
$$;
