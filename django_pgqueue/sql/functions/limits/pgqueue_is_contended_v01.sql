-- Returns whether the line of one of these queues has a lane or an arrival, or messages that may be promoted. After an
-- empty answer of pgqueue_dequeue, another transaction holds them at this moment, or they are new: no NOTIFY follows
-- when they are given back, so ask again soon.
-- Queues that are paused or at a limit do not count. The function is in plpgsql, which keeps its plan from call to
-- call: a function of SQL that cannot become a part of its statement is planned at each call. A worker asks after a
-- dequeue that found nothing, before it sleeps.
-- Locks: none.
CREATE FUNCTION pgqueue_is_contended(p_queues text[])
RETURNS boolean
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    -- The clock is in a variable, because a call with a volatile function does not become a part of the statement.
    v_now timestamptz := clock_timestamp();
    v_open text[];
BEGIN
    IF EXISTS (
        SELECT FROM unnest(p_queues) AS q (name)
        CROSS JOIN LATERAL pgqueue_line(q.name, NULL) AS n
        WHERE (n.head IS NOT NULL OR n.fresh_head IS NOT NULL OR n.urgent OR n.lazy OR n.noted)
            AND CASE WHEN n.guarded THEN pgqueue_queue_is_open(q.name) ELSE true END)
    THEN
        RETURN true;
    ELSIF NOT EXISTS (SELECT FROM pgqueue_limit) THEN
        RETURN false;
    END IF;
    -- A message may be promoted that waits for a shared limit with room, if its channel is served. This looks at 100
    -- limits, and at 100 channels of each, those whose turn is next. One beyond these is made ready by the next tick.
    v_open := ARRAY(SELECT u.name FROM unnest(p_queues) AS u (name) WHERE pgqueue_queue_is_open(u.name));
    RETURN EXISTS (
        SELECT
        FROM pgqueue_waiting_limits(0, 100) AS w (id)
        JOIN pgqueue_limit AS l ON l.id = w.id
        CROSS JOIN LATERAL pgqueue_limit_room(l, v_now) AS r
        WHERE (r.places > 0) IS NOT FALSE AND (r.cost > 0) IS NOT FALSE AND (r.tokens >= 1) IS NOT FALSE
            AND NOT r.saves
            AND EXISTS (
                SELECT
                FROM pgqueue_waiting_channels(w.id, coalesce(r.turn, 0), 100) AS n (channel_id)
                JOIN pgqueue_channel AS c ON c.id = n.channel_id
                WHERE c.queue = ANY (v_open) AND NOT pgqueue_is_parked(c.id)
                    -- An EXISTS could read all that wait for the limit.
                    AND (
                        SELECT m.id FROM pgqueue_message AS m
                        WHERE m.waits_for = w.id AND m.channel_id = n.channel_id AND m.dequeue_at <= v_now
                        ORDER BY m.waits_for, m.channel_id, -m.priority, m.dequeue_at, m.id LIMIT 1
                    ) IS NOT NULL));
END;
$$;
