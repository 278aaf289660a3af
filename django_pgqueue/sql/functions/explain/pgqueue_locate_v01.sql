-- Locates messages: ready | leased | scheduled | settled (archive or dead letters) | not_found, one row for each id.
-- The callers use it to explain why a message was left alone.
-- Locks: none.
CREATE FUNCTION pgqueue_locate(p_ids bigint[])
RETURNS TABLE (id bigint, place text)
LANGUAGE plpgsql
STABLE
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_found record;
    v_gone bigint[];
    v_settled bigint[];
BEGIN
    SELECT coalesce(array_agg(m.id), '{}') AS ids, coalesce(array_agg(m.status), '{}') AS statuses INTO v_found
    FROM pgqueue_message AS m WHERE m.id = ANY (p_ids);
    v_gone := ARRAY(SELECT unnest(p_ids) EXCEPT SELECT unnest(v_found.ids));
    IF v_gone <> '{}' THEN
        v_settled := ARRAY(
            SELECT d.id FROM pgqueue_dead_letter AS d WHERE d.id = ANY (v_gone)
            UNION ALL
            SELECT a.id FROM pgqueue_archived_message AS a WHERE a.id = ANY (v_gone));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE u.status WHEN 1 THEN 'ready' WHEN 2 THEN 'leased' ELSE 'scheduled' END
    FROM unnest(v_found.ids, v_found.statuses) AS u (id, status)
    UNION ALL
    SELECT g, CASE WHEN g = ANY (v_settled) THEN 'settled' ELSE 'not_found' END FROM unnest(v_gone) AS g;
END;
$$;
