-- Takes leases away from their holders, without waiting until they expire: the messages are ready at once, as after a
-- sweep but without a pause. The attempt counts, because it is unknown how far the holder came. The old token becomes
-- invalid: a later settlement of the holder is refused as a lost lease. When the attempts are used up the message
-- becomes a dead letter with the reason poison.
-- An operator uses it for a worker that hangs or is gone. p_reason is kept with the error LeaseReleased of the message.
-- Returns an outcome for each message: released | dead_lettered | cancelled (its cancellation was requested) | waiting
--   (it has no lease) | busy (another transaction settles or extends it) | settled | not_found.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_lease_release(p_ids bigint[], p_reason text DEFAULT '')
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_held record;
    v_done bigint[];
    v_outcomes text[];
BEGIN
    SELECT array_agg(h.id) AS ids, array_agg(h.lease_token) AS tokens, array_agg(h.error) AS errors INTO v_held
    FROM (
        SELECT m.id, m.lease_token, jsonb_build_object(
            'type', 'LeaseReleased',
            'message', format('the lease of worker %s was taken away%s', coalesce(m.worker, '?'),
                ': ' || nullif(p_reason, ''))) AS error
        FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND m.status = 2
        ORDER BY m.id
        FOR UPDATE SKIP LOCKED
    ) AS h;
    IF v_held.ids IS NOT NULL THEN
        SELECT array_agg(r.id), array_agg(CASE r.outcome WHEN 'retried' THEN 'released' ELSE r.outcome END)
        INTO v_done, v_outcomes
        FROM pgqueue_retry(v_held.ids, v_held.tokens, v_held.errors,
            array_fill('0'::interval, ARRAY[cardinality(v_held.ids)]), 'poison', p_swept => true) AS r;
        -- Makes them ready now, not only with the next tick: they are scheduled for this moment.
        PERFORM pgqueue_reschedule(v_done);
    END IF;
    RETURN QUERY
    SELECT w.id,
        CASE
            WHEN w.id = ANY (v_done) THEN v_outcomes[array_position(v_done, w.id)]
            WHEN w.place = 'leased' THEN 'busy'
            WHEN w.place IN ('ready', 'scheduled') THEN 'waiting'
            ELSE w.place
        END
    FROM pgqueue_locate(p_ids) AS w
    ORDER BY w.id;
END;
$$;
