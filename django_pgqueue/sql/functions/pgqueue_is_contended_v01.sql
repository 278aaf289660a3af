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
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(p_queues) AS q (name)
        CROSS JOIN LATERAL pgqueue_line(q.name, NULL) AS n
        WHERE (n.head IS NOT NULL OR n.fresh_head IS NOT NULL OR n.urgent OR n.lazy OR n.noted)
            AND CASE WHEN n.guarded THEN pgqueue_queue_is_open(q.name) ELSE true END)
        OR EXISTS (SELECT FROM pgqueue_limit) AND pgqueue_may_promote(p_queues);
END;
$$;
