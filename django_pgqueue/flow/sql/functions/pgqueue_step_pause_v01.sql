-- Gives a leased message back for a sleep, or for a wait for an event, and keeps that it pauses, both or neither.
-- p_kind: sleep or wait. p_name: of the step or of the event. p_delay or p_until: when it ends without an event.
-- An event that is there makes the message ready at once. While a transaction is open that notifies this event, the
-- message comes back after a second, and asks again.
-- Returns what pgqueue_defer does.
-- Locks: the message; the advisory lock of the event, shared, by a try-lock.
-- Errors: those of pgqueue_defer.
CREATE FUNCTION pgqueue_step_pause(
    p_id bigint,
    p_token uuid,
    p_kind text,
    p_name text,
    p_delay interval DEFAULT NULL,
    p_until timestamptz DEFAULT NULL,
    p_skip_lost boolean DEFAULT false
)
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_until timestamptz := coalesce(p_until, clock_timestamp() + p_delay);
    v_payload jsonb;
BEGIN
    IF NOT pgqueue_step_hold(p_id, p_token) THEN
        NULL;
    ELSIF p_kind = 'wait'
        AND NOT pg_try_advisory_xact_lock_shared(hashtextextended('pgqueue_event:' || p_name, 0)) THEN
        v_until := clock_timestamp() + interval '1 second';
    ELSE
        IF p_kind = 'wait' THEN
            -- A statement of its own: it sees what was committed before the lock. Later events see the row below.
            SELECT e.payload INTO v_payload FROM pgqueue_event AS e WHERE e.name = p_name;
            IF v_payload IS NOT NULL THEN
                v_until := NULL;
            ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
                INSERT INTO pgqueue_event_unsure (name) VALUES (p_name);
            END IF;
        END IF;
        INSERT INTO pgqueue_step (message_id, kind, name, value, until, leased_at)
        SELECT p_id, p_kind, p_name, v_payload, v_until, m.leased_at FROM pgqueue_message AS m WHERE m.id = p_id
        ON CONFLICT (message_id, kind, name) DO NOTHING;
    END IF;
    RETURN QUERY
    SELECT d.id, d.outcome
    FROM pgqueue_defer(ARRAY[p_id], ARRAY[p_token],
        p_until => CASE WHEN v_until IS NOT NULL THEN ARRAY[v_until] END, p_skip_lost => p_skip_lost) AS d;
END;
$$;
