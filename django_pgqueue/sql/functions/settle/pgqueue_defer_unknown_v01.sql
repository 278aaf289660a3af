-- Gives leased messages back when their worker does not know their handler: a deployment may be in progress, and
-- another worker may know it.
-- p_errors: one JSON object for each message, with a type. It is kept with the message the first time; p_grace after
-- that, the message is dead-lettered as unknown_handler. Until then the attempt is given back, and each pause is as
-- long as the message has waited so far, from 1 second to a tenth of p_grace. A message whose cancellation was
-- requested goes to the archive instead.
-- Returns id and outcome: deferred, dead_lettered or cancelled. A lost lease raises PGQ02. With p_skip_lost it is left
--   out, except for messages that this lease has settled before: they return the outcome of that time.
-- Locks: the messages (lock order, step 2), in the order of ids.
-- Errors: PGQ02.
CREATE FUNCTION pgqueue_defer_unknown(
    p_ids bigint[],
    p_tokens uuid[],
    p_errors jsonb[],
    p_grace interval,
    p_skip_lost boolean DEFAULT false
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
    v_held bigint[];
    v_since timestamptz[];
    v_late bigint[];
    v_late_tokens uuid[];
    v_ids bigint[];
    v_tokens uuid[];
    v_pauses interval[];
BEGIN
    -- Keeps the error with the messages that the caller still holds, unless the last failure was the same.
    WITH noted AS (
        UPDATE pgqueue_message AS m
        SET errors = CASE
                -- The last failure was the same: the message has waited since then.
                WHEN m.errors -> -1 ->> 'type' = p_errors[array_position(p_ids, m.id)] ->> 'type' THEN m.errors
                ELSE coalesce(m.errors, '[]')
                    || (jsonb_build_object('attempt', m.attempts, 'leased_at', m.leased_at, 'at', v_now,
                        'worker', m.worker)
                        || coalesce(p_errors[array_position(p_ids, m.id)], '{}'))
            END
        WHERE m.id = ANY (p_ids) AND m.lease_token = p_tokens[array_position(p_ids, m.id)]
        RETURNING m.id, m.lease_token, (m.errors -> -1 ->> 'at')::timestamptz AS since,
            m.cancelled_at IS NOT NULL AS cancelled
    )
    SELECT array_agg(n.id), array_agg(n.since),
        array_agg(n.id) FILTER (WHERE n.since <= v_now - p_grace AND NOT n.cancelled),
        array_agg(n.lease_token) FILTER (WHERE n.since <= v_now - p_grace AND NOT n.cancelled)
    INTO v_held, v_since, v_late, v_late_tokens
    FROM noted AS n;
    SELECT array_agg(g.id), array_agg(g.token),
        array_agg(least(greatest(v_now - v_since[array_position(v_held, g.id)], interval '1 second'), p_grace / 10))
    INTO v_ids, v_tokens, v_pauses
    FROM unnest(p_ids, p_tokens) AS g (id, token)
    WHERE g.id <> ALL (coalesce(v_late, '{}'));
    IF v_ids IS NOT NULL THEN
        RETURN QUERY SELECT d.id, d.outcome
            FROM pgqueue_defer(v_ids, v_tokens, NULL, v_pauses, NULL, true, p_skip_lost) AS d;
    END IF;
    IF v_late IS NOT NULL THEN
        RETURN QUERY
        SELECT d, 'dead_lettered'
        FROM pgqueue_dead_letter(
            v_late, v_late_tokens, array_fill('unknown_handler'::text, ARRAY[cardinality(v_late)])) AS d;
    END IF;
END;
$$;
