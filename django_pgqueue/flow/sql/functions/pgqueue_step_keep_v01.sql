-- Keeps what a step of a leased message has returned, in place of what was kept before.
-- p_kind: step or cursor; each has names of its own.
-- Locks: as pgqueue_step_hold; the row of the step.
-- Errors: PGQ02 the lease is lost.
CREATE FUNCTION pgqueue_step_keep(p_id bigint, p_token uuid, p_kind text, p_name text, p_value jsonb)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF NOT pgqueue_step_hold(p_id, p_token) THEN
        PERFORM pgqueue_lease_lost(ARRAY[p_id], '{}');
    END IF;
    INSERT INTO pgqueue_step AS s (message_id, kind, name, value) VALUES (p_id, p_kind, p_name, p_value)
    ON CONFLICT (message_id, kind, name) DO UPDATE SET value = excluded.value, kept_at = clock_timestamp();
END;
$$;
