-- Keeps an event, and makes the messages ready that wait for it, in the caller's transaction.
-- p_name: 1 to 200 characters. p_payload: JSON for those that wait, now or later.
-- Returns whether it is the first event of this name. Another one changes nothing, until a prune has deleted the first.
-- Locks: the advisory lock of the event, which transactions hold that notify it or have just begun to wait for it, for
-- as long as an enqueue may wait (pgqueue_enqueue_wait); as pgqueue_event_wake.
-- Errors: PGQ06 the event is busy; PGQ07.
CREATE FUNCTION pgqueue_notify_event(p_name text, p_payload jsonb DEFAULT 'null')
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
BEGIN
    IF (length(p_name) BETWEEN 1 AND 200) IS NOT TRUE THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07', 'the name of an event takes 1 to 200 characters'));
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', pgqueue_enqueue_wait(NULL, v_timeout, false), true);
        PERFORM pg_advisory_xact_lock(hashtextextended('pgqueue_event:' || p_name, 0));
        PERFORM set_config('lock_timeout', v_timeout, true);
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ06', format('the event "%s" is busy: another transaction notifies it',
            p_name), 'Try again when that transaction has ended.'));
    END;
    INSERT INTO pgqueue_event (name, payload) VALUES (p_name, coalesce(p_payload, 'null'))
    ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pgqueue_event_wake(p_name);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO pgqueue_event_unsure (name) VALUES (p_name);
    END IF;
    RETURN true;
END;
$$;
