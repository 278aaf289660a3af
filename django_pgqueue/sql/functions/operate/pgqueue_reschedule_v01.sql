-- Gives ready and scheduled messages another time: they are due at p_at; at once without it, or when it has passed.
-- An operator uses it to retry now. Attempts and errors stay. A ready message that is to be due now keeps its place in
-- the line. A message of an ordered channel that was delivered, also one that was only given back, keeps its place and
-- goes on holding the channel, until the new time. One that waits for a shared limit or its order key waits for its
-- time only; the dequeue asks for these again. One that waits for other messages (-2) goes on to wait for them.
-- Returns an outcome for each message: rescheduled | ready (it was already) | leased | busy (another transaction takes
--   or settles it) | settled | not_found; or one row with the refusal PGQ07, a time outside of the years 2 to 9998.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_reschedule(p_ids bigint[], p_at timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, outcome text, refusal jsonb)
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
    v_now timestamptz := clock_timestamp();
    v_at timestamptz := greatest(v_now, p_at);
    v_free bigint[];
    v_moved bigint[];
    v_channels bigint[];
BEGIN
    IF NOT pgqueue_is_valid_time(p_at) THEN
        RETURN QUERY SELECT NULL::bigint, 'invalid',
            pgqueue_refusal('PGQ07', 'cannot reschedule to a time outside of the years 2 to 9998',
            'Cancel or discard the messages, or pause their channel.');
        RETURN;
    END IF;
    v_free := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.id = ANY (p_ids) AND m.status IN (1, 3)
        ORDER BY m.id
        FOR UPDATE SKIP LOCKED);
    -- Sets the new time and the status that belongs to it.
    WITH moved AS (
        UPDATE pgqueue_message AS m
        SET (dequeue_at, status, held_until) = (
                SELECT CASE WHEN h.holds THEN m.dequeue_at ELSE v_at END,
                    CASE WHEN v_at > v_now AND NOT h.holds OR m.waits_for = -2 THEN 3 ELSE 1 END,
                    CASE WHEN h.holds THEN v_at END
                FROM (
                    -- One that was given back without a time has no held_until.
                    SELECT m.held_until IS NOT NULL OR m.last_leased_at IS NOT NULL
                        AND (m.status = 1 OR m.waits_for >= 0) IS TRUE AND EXISTS (
                            SELECT FROM pgqueue_channel AS c WHERE c.id = m.channel_id AND c.ordered) AS holds
                ) AS h
            ),
            waits_for = CASE WHEN m.waits_for = -2 THEN -2 END, promoted_for = NULL
        WHERE m.id = ANY (v_free) AND (m.status = 3 OR v_at > v_now OR m.held_until > v_now)
        RETURNING m.id, m.channel_id
    )
    SELECT array_agg(n.id), array_agg(n.channel_id) INTO v_moved, v_channels FROM moved AS n;
    IF v_moved IS NOT NULL THEN
        PERFORM pgqueue_record_departures(v_channels, false);
    END IF;
    IF v_at = v_now THEN
        PERFORM pgqueue_announce(v_moved);
    END IF;
    IF v_moved IS NOT NULL AND EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) THEN
        PERFORM pgqueue_publish('rescheduled', v_moved);
    END IF;
    RETURN QUERY
    SELECT w.id,
        CASE
            WHEN w.id = ANY (v_moved) THEN 'rescheduled'
            WHEN w.id = ANY (v_free) THEN 'ready'
            WHEN w.place IN ('ready', 'scheduled') THEN 'busy'
            ELSE w.place
        END,
        NULL::jsonb
    FROM pgqueue_locate(p_ids) AS w
    ORDER BY w.id;
END;
$$;
