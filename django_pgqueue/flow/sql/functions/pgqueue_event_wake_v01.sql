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
    v_is_busy boolean;
BEGIN
    SELECT e.payload INTO v_payload FROM pgqueue_event AS e WHERE e.name = p_name;
    SELECT array_agg(r.id) FILTER (WHERE r.outcome IN ('rescheduled', 'ready')), bool_or(r.outcome = 'busy')
    INTO v_ids, v_is_busy
    FROM pgqueue_reschedule(ARRAY(
        SELECT s.message_id
        FROM pgqueue_step AS s
        JOIN pgqueue_message AS m ON m.id = s.message_id AND m.last_leased_at = s.leased_at
        WHERE s.name = p_name AND s.kind = 'wait' AND s.until IS NOT NULL AND v_payload IS NOT NULL)) AS r;
    UPDATE pgqueue_step AS s SET value = v_payload, until = NULL
    WHERE s.message_id = ANY (v_ids) AND s.kind = 'wait' AND s.name = p_name AND s.until IS NOT NULL;
    IF v_is_busy THEN
        INSERT INTO pgqueue_event_unsure (name) VALUES (p_name);
    END IF;
END;
$$;
