-- Makes the next message of one order key ready, because one of its key was settled: the short way of
-- pgqueue_release_keys. Most often no message of the key was set aside, and there is nothing to do.
-- The caller has deleted a message of the key in the same transaction. The settings of the caller pin the plan.
-- Returns the number of messages that were made ready.
-- Locks: as pgqueue_release_keys.
CREATE FUNCTION pgqueue_release_key(p_channel_id bigint, p_key text)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_waits_for bigint;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed'
        AND pg_try_advisory_xact_lock(hashtextextended(p_key, p_channel_id)) THEN
        -- While this transaction holds the key, no dequeue sets a message of it aside, and this look, which is younger
        -- than the lock, shows what those before it have set aside.
        SELECT f.waits_for INTO v_waits_for FROM pgqueue_first_of_key(p_channel_id, p_key) AS f;
        IF v_waits_for IS DISTINCT FROM -1 THEN
            RETURN 0;
        END IF;
    END IF;
    RETURN pgqueue_release_keys(ARRAY[ROW(p_channel_id, p_key)::pgqueue_order_note], true);
END;
$$;
