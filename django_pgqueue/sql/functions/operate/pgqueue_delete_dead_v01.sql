-- Deletes dead letters for good: no redrive brings them back; a lake that has them keeps them. Redriven dead letters
-- are left alone: they document where the message went.
-- p_keep_unexported leaves the dead letters that a lake lacks, as pgqueue_prune does.
-- Returns an outcome for each message: deleted | redriven | unexported | busy (another transaction redrives or
--   deletes it, or prunes) | not_found.
-- Locks: pg_try_advisory_xact_lock, the one of pgqueue_prune, so that no two of them add to the tally; the dead
--   letters, SKIP LOCKED.
CREATE FUNCTION pgqueue_delete_dead(p_ids bigint[], p_keep_unexported boolean DEFAULT false)
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_exported_xid xid8;
    v_gone bigint[] := '{}';
BEGIN
    IF to_regproc('pgqueue_exported_xid') IS NOT NULL THEN
        v_exported_xid := pgqueue_exported_xid();
    END IF;
    IF pg_try_advisory_xact_lock(7205, 2) THEN
        -- Locks the dead letters that may be deleted.
        WITH free AS MATERIALIZED (
            SELECT d.id FROM pgqueue_dead_letter AS d
            WHERE d.id = ANY (p_ids) AND d.redriven_at IS NULL
                AND (d.xid < v_exported_xid OR p_keep_unexported IS NOT TRUE)
            FOR UPDATE SKIP LOCKED
        ),
        -- Deletes them.
        gone AS (
            DELETE FROM pgqueue_dead_letter AS d USING free AS f WHERE d.id = f.id RETURNING d.id, d.queue, d.channel
        ),
        -- The tally keeps the totals of a channel true.
        tallied AS (
            INSERT INTO pgqueue_tally AS t (queue, channel, messages)
            SELECT g.queue, g.channel, count(*) FROM gone AS g GROUP BY g.queue, g.channel
            ON CONFLICT (queue, channel) DO UPDATE SET messages = t.messages + excluded.messages
        )
        SELECT coalesce(array_agg(g.id), '{}') INTO v_gone FROM gone AS g;
    END IF;
    RETURN QUERY
    SELECT u.id,
        CASE
            WHEN u.id = ANY (v_gone) THEN 'deleted'
            WHEN d.id IS NULL THEN 'not_found'
            WHEN d.redriven_at IS NOT NULL THEN 'redriven'
            WHEN p_keep_unexported AND (d.xid < v_exported_xid) IS NOT TRUE THEN 'unexported'
            ELSE 'busy'
        END
    FROM (SELECT DISTINCT n FROM unnest(p_ids) AS n) AS u (id)
    LEFT JOIN pgqueue_dead_letter AS d ON d.id = u.id
    ORDER BY u.id;
END;
$$;
