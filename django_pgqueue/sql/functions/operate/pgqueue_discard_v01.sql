-- Moves ready, scheduled and leased messages to the dead letters with the reason discarded; a redrive brings them back.
-- The holder of a lease loses it: its heartbeat and settlement are refused.
-- p_reason is kept as the message of the details.
-- Returns an outcome for each message: discarded | busy (another transaction takes or settles it) | settled |
--   not_found.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_discard(p_ids bigint[], p_reason text DEFAULT '')
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
    v_details jsonb := CASE WHEN p_reason <> '' THEN jsonb_build_object('message', p_reason) END;
    v_free bigint[];
    v_tokens uuid[];
BEGIN
    v_free := ARRAY(SELECT m.id FROM pgqueue_message AS m WHERE m.id = ANY (p_ids)
        ORDER BY m.id FOR UPDATE SKIP LOCKED);
    IF v_free <> '{}' THEN
        -- A new token: a waiting message has none, and the token of a holder must not fit any more.
        WITH taken AS (
            UPDATE pgqueue_message AS m
            SET lease_token = gen_random_uuid()
            WHERE m.id = ANY (v_free)
            RETURNING m.id, m.lease_token
        )
        SELECT array_agg(t.id), array_agg(t.lease_token) INTO v_free, v_tokens FROM taken AS t;
        PERFORM pgqueue_dead_letter(v_free, v_tokens, array_fill('discarded'::text, ARRAY[cardinality(v_free)]),
            array_fill(v_details, ARRAY[cardinality(v_free)]));
    END IF;
    RETURN QUERY
    SELECT w.id,
        CASE
            WHEN w.id = ANY (v_free) THEN 'discarded'
            WHEN w.place IN ('ready', 'leased', 'scheduled') THEN 'busy'
            ELSE w.place
        END
    FROM pgqueue_locate(p_ids) AS w
    ORDER BY w.id;
END;
$$;
