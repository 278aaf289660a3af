-- Takes the places of messages that all have one and the same shared limit and no breaker, if the limit has room for
-- all of them: the short way of pgqueue_lease_within and pgqueue_take_places, for one message or many.
-- p_ids: locked by the caller; p_now: its reading of the clock, by which they are leased. p_beside: as in
-- pgqueue_hold_limit. The settings of the callers
-- pin the plan.
-- Returns false when nothing was written, and pgqueue_lease_within must decide, message by message: the limit is full
--   or locked, others wait for it, a breaker is open, the channel needs a row, or corrections have to be deleted. Of
--   places that are free again, 16 are deleted together.
-- Locks: as pgqueue_hold_limit. It does not wait for a locked limit, because the long way does.
CREATE FUNCTION pgqueue_take_alike(p_ids bigint[], p_now timestamptz, p_beside boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_all record;
    v_room pgqueue_room;
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
        -- The messages of several channels have no row in common: then that of the limit refuses.
        SELECT g.limits, g.watched, coalesce(CASE WHEN m.first_id = m.last_id
            THEN pgqueue_own_limit(g.limit_id, m.first_id) END, g.limit_id) AS limit_id
    ) AS n;
    IF v_all.alike IS NOT TRUE THEN
        RETURN false;
    END IF;
    v_room := pgqueue_hold_limit(v_all.limit_id, p_now, false, p_beside AND v_all.cost = 1);
    IF NOT pgqueue_has_room(v_room, least(v_all.cost, 2147483647)::integer) OR v_all.is_new AND v_room.waited
        OR v_room.tries OR v_room.per_channel OR v_room.spent IS NOT NULL
        OR v_room.place_floor IS NULL AND v_room.beside IS NULL
        -- A single message that costs more than the limit ever has runs alone.
        OR cardinality(p_ids) > 1 AND (v_room.places < cardinality(p_ids) OR v_room.cost < v_all.cost
            OR v_room.tokens < v_all.cost) THEN
        RETURN false;
    END IF;
    IF v_room.beside THEN
        INSERT INTO pgqueue_spent (limit_id, cost, spent_at) SELECT v_all.limit_id, 1, p_now WHERE NOT v_room.counted;
    ELSIF v_room.tokens IS NOT NULL OR cardinality(v_room.stale) >= 16 THEN
        UPDATE pgqueue_meter AS r
        SET tokens = v_room.tokens - v_all.cost, place_floor = v_room.place_floor,
            -- As in pgqueue_take_places.
            filled_at = greatest(p_now, CASE WHEN r.filled_at <= clock_timestamp() THEN r.filled_at END)
        WHERE r.limit_id = v_all.limit_id;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    IF cardinality(v_room.stale) >= 16 THEN
        DELETE FROM pgqueue_place AS p WHERE p.ctid = ANY (v_room.stale);
    END IF;
    IF v_room.counted THEN
        INSERT INTO pgqueue_place (limit_id, message_id, placed_at)
        SELECT v_all.limit_id, u, p_now FROM unnest(p_ids) AS u;
    END IF;
    RETURN true;
END;
$$;
