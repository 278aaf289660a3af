-- Takes the places of messages that all have one and the same shared limit and no breaker, if the limit has room for
-- all of them.
-- p_ids: locked by the caller; p_now: its reading of the clock. The settings of the callers pin the plan.
-- Returns false when nothing was written, and pgqueue_lease_within must decide, message by message.
-- Locks: as pgqueue_enter_limit.
CREATE FUNCTION pgqueue_take_alike(p_ids bigint[], p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_all record;
BEGIN
    -- Looks up the limits once for the messages of a handler.
    SELECT min(n.limit_id) AS limit_id, sum(m.cost)::bigint AS cost, bool_or(m.is_new) AS is_new,
        min(n.limit_id) = max(n.limit_id) AND max(n.limits) = 1 AND NOT bool_or(n.watched) AS alike
    INTO v_all
    FROM (
        SELECT o.handler, o.limits, min(o.channel_id) AS first_id, max(o.channel_id) AS last_id,
            sum(coalesce(o.cost, 1)) AS cost, bool_or((o.promoted_for > 0) IS NOT TRUE) AS is_new
        FROM pgqueue_message AS o WHERE o.id = ANY (p_ids)
        GROUP BY o.handler, o.limits
    ) AS m
    CROSS JOIN LATERAL (
        SELECT count(*) + coalesce(cardinality(m.limits), 0) AS limits,
            coalesce(min(h.limit_id), m.limits[1]) AS limit_id, coalesce(bool_or(h.breaker), false) AS watched
        FROM pgqueue_limit_handler AS h WHERE h.handler = m.handler
    ) AS g
    CROSS JOIN LATERAL (
        -- The messages of several channels have no row in common: then pgqueue_enter_limit refuses.
        SELECT g.limits, g.watched, coalesce(CASE WHEN m.first_id = m.last_id
            THEN pgqueue_own_limit(g.limit_id, m.first_id) END, g.limit_id) AS limit_id
    ) AS n;
    RETURN coalesce(v_all.alike, false) AND pgqueue_enter_limit(p_ids, v_all.limit_id, v_all.cost, v_all.is_new, p_now);
END;
$$;
