-- Lets messages that wait for dead letters wait for the messages that come of their redrive; or tells them that the
-- letters were deleted, so that none can come. The steps of dead letters go on with the redriven messages, or are
-- deleted.
-- Statement trigger on pgqueue_dead_letter, AFTER UPDATE (transition table: came) and AFTER DELETE (gone).
-- Locks: their steps; the rows of pgqueue_batch, FOR KEY SHARE, from the newest waiting message on, so that none is let
-- go before this transaction ends; it waits for settlements that may be the last. A deletion: as pgqueue_after_settled.
CREATE FUNCTION pgqueue_after_dead_letter()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_moved record;
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM pgqueue_step AS s USING gone AS g WHERE s.message_id = g.id;
        PERFORM pgqueue_after_settled(ARRAY(
            SELECT g.id FROM gone AS g
            WHERE g.redriven_to IS NULL AND EXISTS (
                SELECT FROM pgqueue_batch_member AS m WHERE m.member_id = g.id AND m.batch_id < 0)), 'deleted');
        RETURN NULL;
    END IF;
    UPDATE pgqueue_step AS s SET message_id = c.redriven_to FROM came AS c
    WHERE s.message_id = c.id AND c.redriven_to IS NOT NULL;
    IF FOUND THEN
        UPDATE pgqueue_message AS m SET flow = -abs(coalesce(m.flow, 0)) FROM came AS c
        WHERE m.id = c.redriven_to AND EXISTS (SELECT FROM pgqueue_step AS s WHERE s.message_id = m.id);
    END IF;
    FOR v_moved IN
        SELECT a.batch_id, c.id, c.redriven_to
        FROM came AS c
        CROSS JOIN LATERAL (
            SELECT m.batch_id FROM pgqueue_batch_member AS m WHERE m.member_id = c.id AND m.batch_id < 0 OFFSET 0
        ) AS a
        WHERE c.redriven_to IS NOT NULL
        ORDER BY a.batch_id
    LOOP
        PERFORM FROM pgqueue_batch AS b WHERE b.id = v_moved.batch_id FOR KEY SHARE;
        INSERT INTO pgqueue_batch_member (batch_id, member_id) VALUES (v_moved.batch_id, v_moved.redriven_to);
        DELETE FROM pgqueue_batch_member AS m WHERE m.batch_id = v_moved.batch_id AND m.member_id = v_moved.id;
        UPDATE pgqueue_message AS m SET flow = -abs(coalesce(m.flow, 0)) WHERE m.id = v_moved.redriven_to;
    END LOOP;
    RETURN NULL;
END;
$$;
