-- Returns the weight of the channels that are first in the line, together: of p_limit of them, and of 16 at most.
-- p_lane_seq, p_fresh_seq: where the line begins. The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_first_weights(p_queue text, p_lane_seq bigint, p_fresh_seq bigint, p_limit integer)
RETURNS TABLE (weight double precision)
LANGUAGE sql
STABLE
AS $$
SELECT coalesce(sum(c.weight), 1)::double precision
FROM (
    (SELECT l.channel_id FROM pgqueue_lane AS l
    WHERE l.queue = p_queue AND l.parked_until IS NULL AND l.fresh AND l.seq >= p_fresh_seq
    ORDER BY l.seq LIMIT 16)
    UNION ALL
    (SELECT l.channel_id FROM pgqueue_lane AS l
    WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= p_lane_seq
    ORDER BY l.seq LIMIT 16)
    LIMIT least(p_limit, 16)
) AS n
JOIN pgqueue_channel AS c ON c.id = n.channel_id;
$$;
