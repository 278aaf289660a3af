-- Returns how many ready messages of a channel are left, counted up to 32, and the key of the first: infinite without
-- any.
-- The messages may be locked by others. p_rank, p_at, p_id: no message sorts before this key; p_except: those that the
-- caller has taken. The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_look_ahead(p_channel_id bigint, p_rank smallint, p_at timestamptz, p_id bigint,
    p_except bigint[])
RETURNS TABLE (messages integer, rank smallint, at timestamptz, id bigint)
LANGUAGE sql
STABLE
AS $$
SELECT count(*)::integer, coalesce((array_agg(n.rank))[1], 32767)::smallint,
    coalesce((array_agg(n.dequeue_at))[1], 'infinity'), coalesce((array_agg(n.id))[1], 0)
FROM (
    SELECT -m.priority AS rank, m.dequeue_at, m.id FROM pgqueue_message AS m
    WHERE m.channel_id = p_channel_id AND m.status = 1 AND m.id <> ALL (p_except)
        AND (-m.priority, m.dequeue_at, m.id) >= (p_rank, p_at, p_id)
    ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 32
) AS n;
$$;
