-- Makes the messages ready that wait for an event which is there. Of those that another transaction has locked, it
-- leaves a note for the next sweep. One that is leased, or was since it began to wait, looks by itself
-- (pgqueue_step_event): it may be in the back-off of a retry.
-- Locks: messages, SKIP LOCKED; their steps. The caller has the advisory lock of the event.
CREATE FUNCTION pgqueue_event_wake(p_name text)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_payload jsonb;
    v_ids bigint[];
BEGIN
    SELECT e.payload INTO v_payload FROM pgqueue_event AS e WHERE e.name = p_name;
    IF v_payload IS NULL THEN
        RETURN;
    END IF;
    v_ids := ARRAY(
        SELECT m.id FROM pgqueue_step AS s
        JOIN pgqueue_message AS m ON m.id = s.message_id AND m.last_leased_at = s.leased_at
        WHERE s.name = p_name AND s.kind = 'wait' AND s.until IS NOT NULL AND m.status IN (1, 3)
        FOR UPDATE OF m SKIP LOCKED);
    PERFORM pgqueue_reschedule(v_ids);
    UPDATE pgqueue_step AS s SET value = v_payload, until = NULL
    WHERE s.message_id = ANY (v_ids) AND s.kind = 'wait' AND s.name = p_name;
    -- Those that were skipped are left.
    INSERT INTO pgqueue_event_unsure (name)
    SELECT p_name FROM pgqueue_step AS s
    JOIN pgqueue_message AS m ON m.id = s.message_id AND m.last_leased_at = s.leased_at
    WHERE s.name = p_name AND s.kind = 'wait' AND s.until IS NOT NULL AND m.status IN (1, 3)
    LIMIT 1;
END;
$$;
