-- Returns the round of the turn that a lane has now: that of its last turn, or a later one when a turn begins.
-- A turn has times x weight messages. times is one for the whole round, or calls of different sizes would give one
-- channel long turns and another one short ones: the first lane of a round chooses it (p_times), and the others read it
-- from the lane at the tail, which has had its turn. p_line: where the line begins; p_fresh, p_round, p_served: of the
-- lane. A fresh lane begins no round while others stand in the line. The function is STABLE, so that it becomes a part
-- of the statement.
-- While other transactions hold a lane, the line goes on without it. A lane that was in the line all the time gets the
-- turns of the rounds that it has missed with its next one, fifteen at most.
-- Returns round: its number x 2^20 + the missed turns x 2^16 + times (pgqueue_turn).
-- Locks: none.
CREATE FUNCTION pgqueue_round(
    p_queue text, p_line bigint, p_fresh boolean, p_round bigint, p_served integer, p_times integer
)
RETURNS TABLE (round bigint)
LANGUAGE sql
STABLE
AS $$
SELECT CASE WHEN p_served > 0 THEN p_round ELSE coalesce(
    (
        SELECT CASE
            WHEN p_fresh THEN n.round
            WHEN n.round >> 20 > p_round >> 20
                THEN n.round + (least((n.round >> 20) - (p_round >> 20) - 1, 15) << 16)
        END
        FROM (
            SELECT l.round & ~983040::bigint AS round FROM pgqueue_lane AS l
            WHERE l.queue = p_queue AND l.parked_until IS NULL AND NOT l.fresh AND l.seq >= p_line
            ORDER BY l.seq DESC LIMIT 1
        ) AS n
    ),
    (((p_round >> 20) + 1) << 20) + p_times
) END;
$$;
