-- Returns how the messages ended that a message has waited for, in the order of its header after. A dead letter that
-- was redriven stands for the message that came of it.
-- p_id, p_token: the lease of the message that has waited.
-- outcome: completed, popped, cancelled, dropped or purged, dead; NULL: nothing is known of it any more. queue and
-- channel: of the message, for the codec of its result.
-- Locks: none.
-- Errors: PGQ02 the lease is lost.
CREATE FUNCTION pgqueue_after_results(p_id bigint, p_token uuid)
RETURNS TABLE (id bigint, handler text, outcome text, result jsonb, queue text, channel text)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_after jsonb;
BEGIN
    SELECT m.headers -> 'after' INTO v_after FROM pgqueue_message AS m WHERE m.id = p_id AND m.lease_token = p_token;
    IF NOT FOUND THEN
        PERFORM pgqueue_lease_lost(ARRAY[p_id], '{}');
    END IF;
    RETURN QUERY
    WITH RECURSIVE step (place, id) AS (
        SELECT u.place, u.id::bigint
        FROM jsonb_array_elements_text(CASE jsonb_typeof(v_after) WHEN 'array' THEN v_after ELSE '[]' END)
            WITH ORDINALITY AS u (id, place)
        UNION ALL
        SELECT s.place, d.redriven_to
        FROM step AS s JOIN pgqueue_dead_letter AS d ON d.id = s.id AND d.redriven_to IS NOT NULL
    )
    SELECT n.id, coalesce(a.handler, d.handler)::text,
        coalesce(a.outcome, CASE WHEN d.id IS NOT NULL THEN 'dead' END)::text, a.result,
        coalesce(a.queue, d.queue)::text, coalesce(a.channel, d.channel)::text
    -- A redriven message is newer than its dead letter.
    FROM (SELECT s.place, max(s.id) AS id FROM step AS s GROUP BY s.place) AS n
    LEFT JOIN LATERAL (SELECT o.* FROM pgqueue_archived_message AS o WHERE o.id = n.id LIMIT 1) AS a ON true
    LEFT JOIN pgqueue_dead_letter AS d ON d.id = n.id
    ORDER BY n.place;
END;
$$;
