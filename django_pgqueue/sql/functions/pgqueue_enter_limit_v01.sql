-- Takes places in a shared limit for messages, if it has room for all of them: the short way of pgqueue_lease_within
-- and pgqueue_take_places.
-- p_ids: messages that have this limit only, and no breaker; p_cost: what they cost together; p_new: one of them has
-- not waited for the limit; p_now: the reading of the clock by which they are leased.
-- Returns false when nothing was written, and the long way must decide: the limit is full or locked, others wait for
--   it, a breaker is open, the channel needs a row, or corrections have to be deleted. Of places that are free again, 16 are deleted together.
-- Locks: as pgqueue_hold_limit. It does not wait for a locked limit, because the long way does.
CREATE FUNCTION pgqueue_enter_limit(
    p_ids bigint[], p_limit_id bigint, p_cost bigint, p_new boolean, p_now timestamptz
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_room pgqueue_room := pgqueue_hold_limit(p_limit_id, p_now, false);
    v_many boolean := cardinality(p_ids) > 1;
BEGIN
    IF NOT pgqueue_has_room(v_room, least(p_cost, 2147483647)::integer) OR p_new AND v_room.waited OR v_room.tries OR v_room.per_channel
        OR v_room.spent IS NOT NULL OR v_room.place_floor IS NULL
        -- A single message that costs more than the limit ever has runs alone.
        OR v_many AND (v_room.places < cardinality(p_ids) OR v_room.cost < p_cost OR v_room.tokens < p_cost) THEN
        RETURN false;
    END IF;
    IF v_room.tokens IS NOT NULL OR cardinality(v_room.stale) >= 16 THEN
        UPDATE pgqueue_meter AS r
        SET tokens = v_room.tokens - p_cost, place_floor = v_room.place_floor,
            -- As in pgqueue_take_places.
            filled_at = greatest(p_now, CASE WHEN r.filled_at <= clock_timestamp() THEN r.filled_at END)
        WHERE r.limit_id = p_limit_id;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    IF cardinality(v_room.stale) >= 16 THEN
        DELETE FROM pgqueue_place AS p WHERE p.ctid = ANY (v_room.stale);
    END IF;
    IF v_room.counted THEN
        INSERT INTO pgqueue_place (limit_id, message_id, placed_at) SELECT p_limit_id, u, p_now FROM unnest(p_ids) AS u;
    END IF;
    RETURN true;
END;
$$;
