-- Cancels messages: ready and scheduled ones go to the archive as cancelled; the holder of a leased one is asked to
-- stop.
-- p_reason is kept with the message. The holder of a lease sees the request in its next heartbeat. If it completes the
-- message all the same, the message is completed; when it would be delivered again (defer, retry, an expired lease), it
-- is archived as cancelled.
-- Returns an outcome for each message: cancelled | requested (it is leased) | settled (it is in the archive or a dead
--   letter) | not_found, with the refusal PGQ01 if it is the only one.
-- Locks: the messages (lock order, step 2), in the order of ids.
CREATE FUNCTION pgqueue_cancel(p_ids bigint[], p_reason text DEFAULT '')
RETURNS TABLE (id bigint, outcome text, refusal jsonb)
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
    v_waiting bigint[];
    v_leased bigint[];
    v_settled bigint[];
BEGIN
    -- Requests the cancellation of every live message.
    WITH marked AS (
        UPDATE pgqueue_message AS m
        SET cancelled_at = coalesce(m.cancelled_at, v_now),
            cancel_reason = coalesce(nullif(p_reason, ''), m.cancel_reason)
        WHERE m.id = ANY (p_ids)
        RETURNING m.id, m.status
    )
    SELECT array_agg(w.id) FILTER (WHERE w.status <> 2), array_agg(w.id) FILTER (WHERE w.status = 2)
    INTO v_waiting, v_leased
    FROM marked AS w;
    -- This look comes before this call archives anything, and after the settlements under way have ended.
    v_settled := ARRAY(
        SELECT a.id FROM pgqueue_archived_message AS a WHERE a.id = ANY (p_ids)
        UNION ALL
        SELECT d.id FROM pgqueue_dead_letter AS d WHERE d.id = ANY (p_ids));
    IF v_waiting IS NOT NULL THEN
        PERFORM pgqueue_archive(v_waiting, 'cancelled');
    END IF;
    RETURN QUERY
    SELECT u.id,
        CASE
            WHEN u.id = ANY (v_waiting) THEN 'cancelled'
            WHEN u.id = ANY (v_leased) THEN 'requested'
            WHEN u.id = ANY (v_settled) THEN 'settled'
            ELSE 'not_found'
        END,
        CASE WHEN cardinality(p_ids) = 1 AND v_waiting IS NULL AND v_leased IS NULL AND v_settled = '{}' THEN
            pgqueue_refusal('PGQ01', format('there is no message %s', u.id),
                'It was never committed, retention has dropped it from the archive, '
                'or nothing was archived of it (archive = none).')
        END
    FROM (SELECT DISTINCT n FROM unnest(p_ids) AS n) AS u (id)
    ORDER BY u.id;
END;
$$;
