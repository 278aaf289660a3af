-- Makes sure that the messages which another one waits for tell it when they end: it holds them until this transaction
-- ends, and marks them. It takes out those that have ended, and lets the message of a redrive take the place of its
-- dead letter. Of one that has ended without a trace (archive = none) it is taken that it was completed.
-- p_id: the id of the message that waits, negative; p_policy: its policy; p_all: hold those of other transactions, too.
-- Returns whether it holds all that are left.
-- Locks: the messages, FOR KEY SHARE, and those without the mark FOR NO KEY UPDATE; with wait, the dead letters, FOR
-- SHARE; all SKIP LOCKED. The row of pgqueue_batch, if another transaction sees it, the caller has locked.
CREATE FUNCTION pgqueue_after_hold(p_id bigint, p_policy text, p_all boolean)
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_ids bigint[];
    v_held bigint[];
    v_ended bigint[];
BEGIN
    -- An old snapshot does not show what has ended.
    IF p_all AND current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN false;
    END IF;
    -- Each step is a statement of its own: it sees what was committed before.
    LOOP
        v_ids := ARRAY(SELECT m.member_id FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id);
        v_held := ARRAY(
            SELECT m.id FROM pgqueue_message AS m
            WHERE m.id = ANY (v_ids) AND (p_all OR pgqueue_is_mine(m.xmin))
            FOR KEY SHARE SKIP LOCKED);
        UPDATE pgqueue_message AS m SET flow = -coalesce(m.flow, 0)
        WHERE m.id = ANY (ARRAY(
            SELECT n.id FROM pgqueue_message AS n
            WHERE n.id = ANY (v_held) AND (n.flow IS NULL OR n.flow > 0)
            FOR NO KEY UPDATE SKIP LOCKED));
        IF p_policy = 'wait' THEN
            v_held := v_held || ARRAY(
                SELECT d.id FROM pgqueue_dead_letter AS d
                WHERE d.id = ANY (v_ids) AND d.redriven_to IS NULL AND (p_all OR pgqueue_is_mine(d.xmin))
                FOR SHARE SKIP LOCKED);
        END IF;
        EXIT WHEN cardinality(v_held) = cardinality(v_ids);
        WITH redriven AS (
            DELETE FROM pgqueue_batch_member AS m USING pgqueue_dead_letter AS d
            WHERE m.batch_id = p_id AND m.member_id = ANY (v_ids) AND d.id = m.member_id AND d.redriven_to IS NOT NULL
            RETURNING d.redriven_to
        )
        INSERT INTO pgqueue_batch_member (batch_id, member_id) SELECT p_id, r.redriven_to FROM redriven AS r
        ON CONFLICT DO NOTHING;
        CONTINUE WHEN FOUND;
        WITH ended AS (
            DELETE FROM pgqueue_batch_member AS m
            WHERE m.batch_id = p_id AND m.member_id <> ALL (v_held)
                AND NOT EXISTS (SELECT FROM pgqueue_message AS g WHERE g.id = m.member_id)
                AND NOT (p_policy = 'wait' AND EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = m.member_id))
            RETURNING m.member_id
        )
        SELECT array_agg(e.member_id) INTO v_ended FROM ended AS e;
        EXIT;
    END LOOP;
    -- The archive has many partitions: it is asked only when something has ended.
    IF v_ended IS NOT NULL THEN
        INSERT INTO pgqueue_batch_lost (batch_id, member_id, outcome)
        SELECT p_id, u.id, o.outcome
        FROM unnest(v_ended) AS u (id)
        CROSS JOIN LATERAL (
            SELECT coalesce(
                (SELECT a.outcome FROM pgqueue_archived_message AS a WHERE a.id = u.id LIMIT 1),
                (SELECT 'dead' FROM pgqueue_dead_letter AS d WHERE d.id = u.id),
                'completed') AS outcome
        ) AS o
        WHERE o.outcome NOT IN ('completed', 'popped');
    END IF;
    RETURN NOT EXISTS (
        SELECT FROM pgqueue_batch_member AS m
        WHERE m.batch_id = p_id AND (
            m.member_id <> ALL (v_held)
            OR EXISTS (SELECT FROM pgqueue_message AS g WHERE g.id = m.member_id AND (g.flow IS NULL OR g.flow > 0))));
END;
$$;
