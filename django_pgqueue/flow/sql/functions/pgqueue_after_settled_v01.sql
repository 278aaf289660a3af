-- Tells the messages that wait for others that some have ended, and lets those go that wait for none any more. What is
-- cancelled because of that has ended, too: so it goes on, step by step, along the longest chain.
-- p_ids: messages that were settled for good, or dead letters that were deleted; p_outcome: as in pgqueue_flow_settled.
-- Locks: their steps; as pgqueue_batch_look, from the newest waiting message on, of each step.
CREATE FUNCTION pgqueue_after_settled(p_ids bigint[], p_outcome text)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_ids bigint[] := p_ids;
    v_outcome text := p_outcome;
    v_waiting record;
    v_looked bigint[];
BEGIN
    WHILE v_ids <> '{}' LOOP
        -- What has ended waits no more. The messages that it waited for take their rows out themselves.
        DELETE FROM pgqueue_batch_lost AS l WHERE l.batch_id = ANY (ARRAY(SELECT -u FROM unnest(v_ids) AS u));
        DELETE FROM pgqueue_batch AS b WHERE b.id = ANY (ARRAY(SELECT -u FROM unnest(v_ids) AS u));
        -- A dead letter keeps its steps: a redrive goes on with them.
        IF v_outcome <> 'dead' THEN
            DELETE FROM pgqueue_step AS s WHERE s.message_id = ANY (v_ids);
        END IF;
        v_looked := '{}';
        FOR v_waiting IN
            SELECT a.batch_id, array_agg(a.member_id) AS members,
                (SELECT b.policy FROM pgqueue_batch AS b WHERE b.id = a.batch_id) AS policy
            FROM unnest(v_ids) AS u (id)
            CROSS JOIN LATERAL (
                SELECT m.batch_id, m.member_id FROM pgqueue_batch_member AS m
                WHERE m.member_id = u.id AND m.batch_id < 0 OFFSET 0
            ) AS a
            GROUP BY a.batch_id
            ORDER BY a.batch_id
        LOOP
            IF v_waiting.policy IS NULL THEN
                DELETE FROM pgqueue_batch_member AS m
                WHERE m.batch_id = v_waiting.batch_id AND m.member_id = ANY (v_waiting.members);
            ELSIF v_waiting.policy <> 'wait' OR v_outcome <> 'dead' THEN
                PERFORM pgqueue_batch_settle(v_waiting.batch_id, v_waiting.members, v_outcome);
                v_looked := v_looked || v_waiting.batch_id;
            END IF;
        END LOOP;
        v_outcome := 'cancelled';
        v_ids := ARRAY(
            SELECT -b.id FROM pgqueue_batch AS b WHERE b.id = ANY (v_looked) AND b.finished_at IS NOT NULL);
    END LOOP;
END;
$$;
