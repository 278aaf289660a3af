-- Takes the place of one message that has one shared limit and no breaker, if the limit has room: the short way of
-- pgqueue_lease_within and pgqueue_take_places.
-- Caller: pgqueue_lease_one.
-- The parameters are those of pgqueue_lease_one.
-- Returns false when nothing was written, and the long way must decide: the limit is full or locked, others wait for
--   it, or rows have to be deleted. Places that are free again are left to the long way until there are 16 of them.
-- Locks: as pgqueue_hold_limit.
CREATE FUNCTION pgqueue_take_place(p_id bigint, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_message record;
    v_handler record;
    v_room pgqueue_room;
BEGIN
    SELECT m.handler, m.limits, coalesce(m.cost, 1) AS cost, (m.promoted_for > 0) IS NOT TRUE AS is_new INTO v_message
    FROM pgqueue_message AS m WHERE m.id = p_id;
    SELECT count(*) AS limits, min(h.limit_id) AS limit_id, bool_or(h.breaker) AS watched INTO v_handler
    FROM pgqueue_limit_handler AS h WHERE h.handler = v_message.handler;
    IF v_handler.watched OR v_handler.limits + coalesce(cardinality(v_message.limits), 0) <> 1 THEN
        RETURN false;
    END IF;
    v_room := pgqueue_hold_limit(coalesce(v_handler.limit_id, v_message.limits[1]), p_now, true);
    IF NOT pgqueue_has_room(v_room, v_message.cost) OR v_message.is_new AND v_room.waited OR v_room.tries
        OR v_room.spent IS NOT NULL OR cardinality(v_room.stale) >= 16 OR v_room.place_floor IS NULL THEN
        RETURN false;
    END IF;
    IF v_room.tokens IS NOT NULL THEN
        UPDATE pgqueue_meter AS r
        SET tokens = v_room.tokens - v_message.cost,
            -- As in pgqueue_take_places.
            filled_at = greatest(p_now, CASE WHEN r.filled_at <= clock_timestamp() THEN r.filled_at END)
        WHERE r.limit_id = v_room.limit_id;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    IF v_room.counted THEN
        INSERT INTO pgqueue_place (limit_id, message_id, placed_at) VALUES (v_room.limit_id, p_id, p_now);
    END IF;
    RETURN true;
END;
$$;
