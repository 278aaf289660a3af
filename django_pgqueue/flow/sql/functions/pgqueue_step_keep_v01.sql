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
    PERFORM pgqueue_step_hold(p_id, p_token);
    INSERT INTO pgqueue_step AS s (message_id, kind, name, value) VALUES (p_id, p_kind, p_name, p_value)
    ON CONFLICT (message_id, kind, name) DO UPDATE SET value = excluded.value, kept_at = clock_timestamp();
END;
$$;
