-- Gives leased messages back on purpose, to be delivered again at p_until or after p_delay; without either at once, in
-- their old place. A message of an ordered channel always keeps its place, and is held there until its time. p_states
-- replaces the saved state.
-- A deferral is progress, not a failure: the attempt is given back, so a long chain of deferrals never runs out of
-- attempts. With p_count_attempt it counts as a failure does: when the attempts are used up, the message becomes a dead
-- letter with the reason deferred. A message whose cancellation was requested goes to the archive instead.
-- Returns id and outcome: deferred, cancelled or dead_lettered. A lost lease raises PGQ02. With p_skip_lost it is left
--   out, except for messages that this lease has settled before: they return the outcome of that time.
-- Locks: the messages (lock order, step 2), in the order of ids.
-- Errors: PGQ02, PGQ07.
CREATE FUNCTION pgqueue_defer(
    p_ids bigint[],
    p_tokens uuid[],
    p_until timestamptz[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL,
    p_states jsonb[] DEFAULT NULL,
    p_keep_state boolean DEFAULT true,
    p_skip_lost boolean DEFAULT false,
    p_count_attempt boolean DEFAULT false
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
    v_done bigint[];
    v_channels bigint[];
    v_cancelled bigint[];
    v_dead bigint[];
    v_dead_tokens uuid[];
    v_found bigint[];
BEGIN
    IF EXISTS (SELECT FROM unnest(p_until) AS u WHERE NOT pgqueue_is_valid_time(u))
        OR EXISTS (SELECT FROM unnest(p_delays) AS u WHERE u NOT BETWEEN '-365000 days' AND '365000 days')
    THEN
        RAISE EXCEPTION 'cannot defer by more than 365000 days, or until a time outside of the years 2 to 9998'
            USING ERRCODE = 'PGQ07', HINT = 'Dead-letter the message, or pause its channel.';
    END IF;
    IF cardinality(p_tokens) <> cardinality(p_ids) OR cardinality(p_until) <> cardinality(p_ids)
        OR cardinality(p_delays) <> cardinality(p_ids)
        OR cardinality(p_states) <> cardinality(p_ids) THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', pgqueue_unpaired('p_ids', cardinality(p_ids),
            ARRAY['p_tokens', 'p_until', 'p_delays', 'p_states'],
            ARRAY[cardinality(p_tokens), cardinality(p_until), cardinality(p_delays), cardinality(p_states)])));
    END IF;
    -- Makes the messages ready or scheduled; those to be settled keep their lease until the end of this call.
    WITH given_back AS (
        UPDATE pgqueue_message AS m
        SET (status, dequeue_at, held_until, leased_at, lease_expires_at, lease_token, worker) = (
                SELECT CASE WHEN p.last THEN 2 WHEN p.due_at > v_now AND NOT p.ordered THEN 3 ELSE 1 END,
                    CASE WHEN p.due_at IS NULL OR p.ordered THEN m.dequeue_at ELSE greatest(v_now, p.due_at) END,
                    CASE WHEN p.ordered THEN greatest(v_now, p.due_at) END,
                    CASE WHEN p.last THEN m.leased_at END, CASE WHEN p.last THEN m.lease_expires_at END,
                    CASE WHEN p.last THEN m.lease_token END, CASE WHEN p.last THEN m.worker END
                FROM (
                    SELECT m.cancelled_at IS NOT NULL OR p_count_attempt AND m.attempts >= m.max_attempts AS last,
                        (p_until IS NOT NULL OR p_delays IS NOT NULL) AND EXISTS (
                            SELECT FROM pgqueue_channel AS c WHERE c.id = m.channel_id AND c.ordered) AS ordered,
                        greatest(p_until[array_position(p_ids, m.id)],
                            v_now + p_delays[array_position(p_ids, m.id)]) AS due_at
                ) AS p
            ),
            attempts = m.attempts - CASE WHEN p_count_attempt OR m.cancelled_at IS NOT NULL THEN 0 ELSE 1 END,
            state = CASE
                WHEN p_keep_state THEN coalesce(p_states[array_position(p_ids, m.id)], m.state)
                ELSE p_states[array_position(p_ids, m.id)]
            END,
            last_leased_at = m.leased_at,
            settled_token = m.lease_token
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.id, m.channel_id, m.status, m.lease_token, m.cancelled_at IS NOT NULL AS cancelled
    )
    SELECT array_agg(g.id) FILTER (WHERE g.status <> 2), array_agg(g.channel_id) FILTER (WHERE g.status <> 2),
        array_agg(g.id) FILTER (WHERE g.cancelled),
        array_agg(g.id ORDER BY g.id) FILTER (WHERE g.status = 2 AND NOT g.cancelled),
        array_agg(g.lease_token ORDER BY g.id) FILTER (WHERE g.status = 2 AND NOT g.cancelled)
    INTO v_done, v_channels, v_cancelled, v_dead, v_dead_tokens
    FROM given_back AS g;
    v_found := v_done || v_cancelled || v_dead;
    IF NOT p_skip_lost AND coalesce(cardinality(v_found), 0) < cardinality(p_ids) THEN
        PERFORM pgqueue_lease_lost(p_ids, v_found);
    END IF;
    PERFORM pgqueue_announce(v_done);
    PERFORM pgqueue_record_departures(v_channels, false);
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) THEN
        PERFORM pgqueue_publish('deferred', v_done);
    END IF;
    IF v_dead IS NOT NULL THEN
        PERFORM pgqueue_dead_letter(v_dead, v_dead_tokens, array_fill('deferred'::text, ARRAY[cardinality(v_dead)]));
    END IF;
    IF v_cancelled IS NOT NULL THEN
        PERFORM pgqueue_archive(v_cancelled, 'cancelled');
    END IF;
    RETURN QUERY
    SELECT u, 'deferred'::text FROM unnest(v_done) AS u UNION ALL
    SELECT u, 'cancelled' FROM unnest(v_cancelled) AS u UNION ALL
    SELECT u, 'dead_lettered' FROM unnest(v_dead) AS u;
    IF coalesce(cardinality(v_found), 0) < cardinality(p_ids) THEN
        RETURN QUERY SELECT b.id, b.outcome FROM pgqueue_settled_before(p_ids, p_tokens, v_found) AS b;
    END IF;
END;
$$;
