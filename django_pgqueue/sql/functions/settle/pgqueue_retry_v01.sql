-- Puts failed messages back under their retry policy: after p_delays, or the back-off of the message, at most 365,000
-- days; as dead letters when the attempts are used up. A message whose cancellation was requested goes to the archive
-- instead. A message of an ordered channel stays ready at its place, held until its pause is over.
-- p_states: the state to save, one for each message; NULL keeps the saved one. p_errors: one JSON object for each
-- message; kept with it, attempt by attempt. p_reason is poison and p_swept is true for a worker that died: its token
-- becomes invalid, so a later settlement is refused. p_ran_seconds: how long the handler of each message ran; NULL:
-- unknown. It gives the error, and a dead letter, started_at.
-- p_max_interruptions: these have not failed, a stop of their worker has interrupted them. The attempt is given back,
-- no breaker counts it, and the error has the number of the interruption in place of the attempt. With this number, the
-- message becomes a dead letter. NULL: they have failed.
-- Returns id and outcome: retried, dead_lettered or cancelled. A lost lease raises PGQ02. With p_skip_lost it is left
--   out, except for messages that this lease has settled before: they return the outcome of that time.
-- Locks: the messages (lock order, step 2), in the order of ids.
-- Errors: PGQ02, PGQ07 arrays that do not pair up.
CREATE FUNCTION pgqueue_retry(
    p_ids bigint[],
    p_tokens uuid[],
    p_errors jsonb[],
    p_delays interval[] DEFAULT NULL,
    p_reason text DEFAULT 'failed',
    p_skip_lost boolean DEFAULT false,
    p_swept boolean DEFAULT false,
    p_states jsonb[] DEFAULT NULL,
    p_ran_seconds double precision[] DEFAULT NULL,
    p_max_interruptions integer DEFAULT NULL
)
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_back bigint[];
    v_channels bigint[];
    v_held bigint[];
    v_dead bigint[];
    v_dead_tokens uuid[];
    v_dead_ran double precision[];
    v_cancelled bigint[];
    v_cancelled_ran double precision[];
    v_found bigint[];
    v_ended pgqueue_ended[];
BEGIN
    IF cardinality(p_tokens) <> cardinality(p_ids) OR cardinality(p_errors) <> cardinality(p_ids)
        OR cardinality(p_delays) <> cardinality(p_ids) OR cardinality(p_ran_seconds) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens', 'p_errors', 'p_delays', 'p_ran_seconds'],
            ARRAY[cardinality(p_tokens), cardinality(p_errors), cardinality(p_delays), cardinality(p_ran_seconds)])));
    END IF;
    -- Adds the error to the messages that the caller still holds, and schedules those that have attempts left.
    WITH failed AS (
        UPDATE pgqueue_message AS m
        SET state = coalesce(p_states[array_position(p_ids, m.id)], m.state),
            last_leased_at = m.leased_at,
            settled_token = CASE WHEN p_swept THEN m.settled_token ELSE m.lease_token END,
            (errors, attempts, status, dequeue_at, held_until, leased_at, lease_expires_at, worker, lease_token) = (
                SELECT coalesce(m.errors, '[]') || (jsonb_build_object('leased_at', m.leased_at,
                        'started_at', pgqueue_started_at(v_now, m.leased_at,
                            p_ran_seconds[array_position(p_ids, m.id)]),
                        'at', v_now, 'worker', m.worker)
                        || CASE WHEN i.number IS NULL OR p.last THEN jsonb_build_object('attempt', m.attempts)
                            ELSE '{}' END
                        || coalesce(p_errors[array_position(p_ids, m.id)], '{}')
                        || CASE WHEN i.number IS NULL THEN '{}' ELSE jsonb_build_object('interruption', i.number) END),
                    m.attempts - (i.number IS NOT NULL AND NOT p.last)::integer,
                    CASE WHEN p.last THEN 2 WHEN p.ordered THEN 1 ELSE 3 END,
                    CASE WHEN p.last OR p.ordered THEN m.dequeue_at ELSE p.due_at END,
                    CASE WHEN p.ordered AND NOT p.last THEN p.due_at END,
                    CASE WHEN p.last THEN m.leased_at END, CASE WHEN p.last THEN m.lease_expires_at END,
                    CASE WHEN p.last THEN m.worker END,
                    CASE WHEN p.last AND p_swept THEN gen_random_uuid() WHEN p.last THEN m.lease_token END
                FROM (
                    SELECT CASE WHEN p_max_interruptions IS NOT NULL THEN pgqueue_interruptions(m.errors) + 1 END
                        AS number
                ) AS i
                CROSS JOIN LATERAL (
                    SELECT m.cancelled_at IS NOT NULL OR CASE WHEN i.number IS NULL THEN m.attempts >= m.max_attempts
                            ELSE i.number >= p_max_interruptions END AS last,
                        EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = m.channel_id AND c.ordered) AS ordered,
                        -- The pause is capped, not refused: a message whose pause cannot be added would keep its lease
                        -- for ever, and its whole batch with it.
                        v_now + least('365000 days', greatest('0', coalesce(p_delays[array_position(p_ids, m.id)],
                            pgqueue_backoff(m.attempts, m.backoff, m.backoff_factor, m.backoff_longest)))) AS due_at
                ) AS p
            )
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.*, m.cancelled_at IS NOT NULL AS cancelled, m.status = 2 AND m.cancelled_at IS NULL AS dead,
            p_ran_seconds[array_position(p_ids, m.id)] AS ran
    )
    SELECT array_agg(f.id) FILTER (WHERE f.status <> 2), array_agg(f.channel_id) FILTER (WHERE f.status <> 2),
        array_agg(f.id) FILTER (WHERE f.status = 1), array_agg(f.id ORDER BY f.id) FILTER (WHERE f.dead),
        array_agg(f.lease_token ORDER BY f.id) FILTER (WHERE f.dead),
        array_agg(f.ran ORDER BY f.id) FILTER (WHERE f.dead), array_agg(f.id ORDER BY f.id) FILTER (WHERE f.cancelled),
        array_agg(f.ran ORDER BY f.id) FILTER (WHERE f.cancelled),
        array_agg(ROW(f.handler, f.channel_id, f.id, f.last_leased_at)::pgqueue_ended) FILTER (
            WHERE EXISTS (SELECT FROM pgqueue_limit_handler AS h WHERE h.handler = f.handler AND h.breaker))
    INTO v_back, v_channels, v_held, v_dead, v_dead_tokens, v_dead_ran, v_cancelled, v_cancelled_ran, v_ended
    FROM failed AS f;
    v_found := v_back || v_dead || v_cancelled;
    IF NOT p_skip_lost AND coalesce(cardinality(v_found), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_found);
    END IF;
    PERFORM pgqueue_record_outcomes(v_ended, true) WHERE v_ended IS NOT NULL AND p_max_interruptions IS NULL;
    IF v_back IS NOT NULL THEN
        PERFORM pgqueue_announce(v_held) WHERE v_held IS NOT NULL;
        PERFORM pgqueue_record_departures(v_channels, false);
        PERFORM pgqueue_publish('retried', v_back) WHERE EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events);
    END IF;
    PERFORM pgqueue_dead_letter(v_dead, v_dead_tokens, array_fill(p_reason, ARRAY[cardinality(v_dead)]),
        p_ran_seconds => v_dead_ran)
    WHERE v_dead IS NOT NULL;
    PERFORM pgqueue_archive(v_cancelled, 'cancelled', NULL, v_cancelled_ran) WHERE v_cancelled IS NOT NULL;
    RETURN QUERY
    SELECT u, 'retried'::text FROM unnest(v_back) AS u UNION ALL
    SELECT u, 'dead_lettered' FROM unnest(v_dead) AS u UNION ALL
    SELECT u, 'cancelled' FROM unnest(v_cancelled) AS u;
    IF coalesce(cardinality(v_found), 0) < cardinality(p_ids) THEN
        RETURN QUERY SELECT b.id, b.outcome FROM pgqueue_settled_before(p_ids, p_tokens, v_found) AS b;
    END IF;
END;
$$;
