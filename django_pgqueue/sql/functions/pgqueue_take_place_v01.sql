-- Takes the place of one message that has one shared limit and no breaker, if the limit has room.
-- The parameters are those of pgqueue_lease_one.
-- Returns false when nothing was written, and pgqueue_lease_within must decide.
-- Locks: as pgqueue_enter_limit.
CREATE FUNCTION pgqueue_take_place(p_id bigint, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_message record;
    v_handler record;
    v_limit_id bigint;
BEGIN
    SELECT m.handler, m.channel_id, m.limits, coalesce(m.cost, 1) AS cost, (m.promoted_for > 0) IS NOT TRUE AS is_new
    INTO v_message
    FROM pgqueue_message AS m WHERE m.id = p_id;
    SELECT count(*) AS limits, min(h.limit_id) AS limit_id, bool_or(h.breaker) AS watched INTO v_handler
    FROM pgqueue_limit_handler AS h WHERE h.handler = v_message.handler;
    v_limit_id := coalesce(v_handler.limit_id, v_message.limits[1]);
    RETURN (v_handler.watched OR v_handler.limits + coalesce(cardinality(v_message.limits), 0) <> 1) IS NOT TRUE
        AND pgqueue_enter_limit(ARRAY[p_id], coalesce(pgqueue_own_limit(v_limit_id, v_message.channel_id), v_limit_id),
            v_message.cost, v_message.is_new, p_now);
END;
$$;
