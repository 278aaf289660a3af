-- Returns the outcome of messages that these very leases have settled before: a connection that breaks at the commit
-- leaves that unknown.
-- The callers ask for messages that they did not find, with p_skip_lost. p_done: messages to leave out.
-- Returns completed | cancelled (archive), dead_lettered, or retried (it was given back, and is live).
-- Locks: none.
CREATE FUNCTION pgqueue_settled_before(p_ids bigint[], p_tokens uuid[], p_done bigint[])
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_asked record;
BEGIN
    FOR v_asked IN
        SELECT DISTINCT u.id, u.token
        FROM unnest(p_ids, p_tokens) AS u (id, token)
        WHERE u.id <> ALL (coalesce(p_done, '{}')) AND u.token IS NOT NULL
        ORDER BY u.id
    LOOP
        RETURN QUERY
        SELECT a.id, a.outcome::text FROM pgqueue_archived_message AS a
        WHERE a.id = v_asked.id AND a.lease_token = v_asked.token AND a.outcome IN ('completed', 'cancelled')
        UNION ALL
        SELECT d.id, 'dead_lettered' FROM pgqueue_dead_letter AS d
        WHERE d.id = v_asked.id AND d.lease_token = v_asked.token
        UNION ALL
        SELECT m.id, 'retried' FROM pgqueue_message AS m WHERE m.id = v_asked.id AND m.settled_token = v_asked.token;
    END LOOP;
END;
$$;
