-- Looks again at the batches for which a settlement could not tell whether it was the last one (pgqueue_batch_unsure),
-- and ends those that are over; seals what a message waits for, if its enqueue could not, or lets the message go. A
-- sweep runs it.
-- Returns how many it has ended.
-- Locks: batches, and rows of members, SKIP LOCKED; as pgqueue_after_seal; as pgqueue_batch_look for outer batches.
CREATE FUNCTION pgqueue_batch_sweep()
RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_id bigint;
    v_ended integer := 0;
BEGIN
    -- The oldest first: a batch that waits for room leaves a new note.
    FOR v_id IN
        SELECT u.batch_id FROM pgqueue_batch_unsure AS u
        GROUP BY u.batch_id ORDER BY min(u.noted_at), u.batch_id LIMIT 1000
    LOOP
        PERFORM FROM pgqueue_batch AS b WHERE b.id = v_id AND b.finished_at IS NULL FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            IF NOT pgqueue_after_seal(v_id) THEN
                CONTINUE;
            ELSIF pgqueue_batch_has_untouched(v_id) THEN
                -- The settlement of that member looks again, and sees those that have left notes.
                DELETE FROM pgqueue_batch_unsure AS u WHERE u.batch_id = v_id;
            ELSIF NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = v_id) THEN
                DELETE FROM pgqueue_batch_unsure AS u WHERE u.batch_id = v_id;
                v_ended := v_ended + CASE WHEN v_id < 0 THEN pgqueue_after_end(v_id) ELSE pgqueue_batch_finish(v_id) END;
            END IF;
        ELSIF NOT EXISTS (SELECT FROM pgqueue_batch AS b WHERE b.id = v_id AND b.finished_at IS NULL) THEN
            -- A message that was cancelled before its seal is unknown to what it waited for.
            DELETE FROM pgqueue_batch_member AS m
            WHERE m.batch_id = v_id AND m.member_id = ANY (ARRAY(
                SELECT n.member_id FROM pgqueue_batch_member AS n WHERE n.batch_id = v_id FOR UPDATE SKIP LOCKED));
            DELETE FROM pgqueue_batch_unsure AS u
            WHERE u.batch_id = v_id AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = v_id);
        END IF;
    END LOOP;
    PERFORM pgqueue_event_sweep();
    RETURN v_ended;
END;
$$;
