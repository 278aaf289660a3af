-- Returns for each batch how many members it has had, how many are outstanding, and how many ended without being
-- completed, by outcome. finished_at: NULL while the batch is not over.
-- Locks: none.
CREATE FUNCTION pgqueue_batch_counts(p_ids bigint[])
RETURNS TABLE (id bigint, total bigint, outstanding bigint, lost jsonb, finished_at timestamptz)
LANGUAGE sql
SECURITY DEFINER
AS $$
    SELECT b.id,
        CASE
            WHEN b.sealed_at IS NULL THEN m.outstanding + l.members
            ELSE b.total + coalesce((SELECT sum(a.members) FROM pgqueue_batch_added AS a WHERE a.batch_id = b.id), 0)
        END::bigint,
        m.outstanding, l.lost, b.finished_at
    FROM pgqueue_batch AS b
    CROSS JOIN LATERAL (
        SELECT count(*) AS outstanding FROM pgqueue_batch_member AS m WHERE m.batch_id = b.id
    ) AS m
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(g.outcome, g.members), '{}') AS lost, coalesce(sum(g.members), 0) AS members
        FROM (
            SELECT l.outcome, count(*) AS members FROM pgqueue_batch_lost AS l WHERE l.batch_id = b.id
            GROUP BY l.outcome
        ) AS g
    ) AS l
    WHERE b.id = ANY (p_ids)
    ORDER BY b.id;
$$;
