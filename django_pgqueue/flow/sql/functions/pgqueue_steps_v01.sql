-- Returns what is kept of the steps of a leased message: by kind and name, the value, and until when it pauses.
-- Locks: none.
-- Errors: PGQ02 the lease is lost.
CREATE FUNCTION pgqueue_steps(p_id bigint, p_token uuid)
RETURNS TABLE (kind text, name text, value jsonb, until timestamptz)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM pgqueue_lease_lost(ARRAY[p_id], '{}')
    WHERE NOT EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = p_id AND m.lease_token = p_token);
    RETURN QUERY
    SELECT s.kind, s.name, s.value, s.until FROM pgqueue_step AS s WHERE s.message_id = p_id ORDER BY s.kept_at, s.name;
END;
$$;
