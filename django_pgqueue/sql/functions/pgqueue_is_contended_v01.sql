-- Whether something stands in the line of one of these queues, or waits to be folded into it. After an empty answer of pgqueue_dequeue this is
-- what another transaction holds at this moment, or what came since: nobody notifies when it is given back, so ask again soon.
-- In plpgsql, which keeps its plan from call to call: a function of SQL that cannot become a part of its statement is planned at each call.
-- Caller: a worker whose dequeue found nothing, before it sleeps; pgqueue_take. Paused queues do not count. Locks: none.
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
        WHERE NOT n.paused AND (n.head IS NOT NULL OR n.fresh_head IS NOT NULL OR n.news OR n.lazy));
END;
$$;
