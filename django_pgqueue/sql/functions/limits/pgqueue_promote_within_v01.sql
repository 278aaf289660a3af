-- Makes messages ready that wait for one shared limit, as many as it has room for, less those that were made ready
-- before and stand in the line. The channels take turns, by weight: a turn that is not over goes on in the next call.
-- A message that costs more than is left holds the turn until there is enough: otherwise cheaper ones would take all
-- that gets free, and it would wait for ever. The first round begins in the middle; one that is whole and finds nothing
-- is the last.
-- The parameters are those of pgqueue_promote_waiting. A channel that is not served keeps no place from the others: it
-- gets as many messages ahead as its weight, and they are not counted. That is one that is parked (it or its queue
-- is paused, or at a limit), or one of a queue in which such a message has been ready for 5 seconds: its workers may
-- have ended.
-- Returns the ids.
-- Locks: the limit, then messages, all SKIP LOCKED.
CREATE FUNCTION pgqueue_promote_within(p_limit_id bigint, p_queue text, p_most integer, p_now timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_room pgqueue_room := pgqueue_hold_limit(p_limit_id, p_now, false, p_alone => false);
    v_free integer;
    v_before record;
    v_turn record;
    v_cost bigint;
    v_wanted integer;
    v_channel_id bigint := coalesce(v_room.turn, 0);
    v_left integer := coalesce(v_room.turn_left, 0);
    v_most integer;
    v_new bigint[];
    v_ids bigint[] := '{}';
    v_idle integer := 0;
    v_news boolean := true;
BEGIN
    -- A message of another queue may save up: a look of its queue, or a tick, has met it in the last second.
    IF NOT pgqueue_has_room(v_room, 1) OR v_room.saved_at > p_now - interval '1 second' AND EXISTS (
        SELECT FROM pgqueue_channel AS c WHERE c.id = v_room.turn AND c.queue <> p_queue) THEN
        RETURN v_ids;
    END IF;
    SELECT p.*, NOT pgqueue_queue_is_open(p_queue) AS closed INTO v_before
    FROM pgqueue_promised(p_limit_id, p_now) AS p;
    v_free := least(p_most, least(v_room.places, v_room.cost, floor(v_room.tokens)) - v_before.messages);
    v_room.cost := v_room.cost - v_before.cost;
    v_room.tokens := v_room.tokens - v_before.cost;
    WHILE v_free > 0 AND v_idle < 100 LOOP
        SELECT m.channel_id, c.queue, c.weight, false AS parked INTO v_turn
        FROM (
            SELECT o.channel_id FROM pgqueue_message AS o
            WHERE o.waits_for = p_limit_id
                AND o.channel_id >= CASE WHEN v_left > 0 THEN v_channel_id ELSE v_channel_id + 1 END
            ORDER BY o.channel_id LIMIT 1
        ) AS m
        LEFT JOIN pgqueue_channel AS c ON c.id = m.channel_id;
        IF NOT FOUND THEN
            EXIT WHEN v_channel_id = 0 OR NOT v_news;
            v_channel_id := 0;
            v_left := 0;
            v_news := false;
            CONTINUE;
        END IF;
        IF v_left <= 0 OR v_turn.channel_id <> v_channel_id THEN
            v_left := coalesce(v_turn.weight, 1) * greatest(v_free / 16, 1);
        END IF;
        v_channel_id := v_turn.channel_id;
        v_most := least(v_free, v_left);
        v_new := '{}';
        IF p_queue IS NULL OR p_queue = v_turn.queue THEN
            v_turn.parked := v_before.closed OR v_turn.queue = ANY (v_before.slow) OR pgqueue_is_parked(v_channel_id)
                OR p_queue IS NULL AND NOT pgqueue_queue_is_open(v_turn.queue);
            v_new := pgqueue_lock_waiting(
                p_limit_id, v_channel_id, v_most, CASE WHEN v_turn.parked THEN v_turn.weight END, p_now);
        END IF;
        IF v_new = '{}' THEN
            v_left := 0;
            v_idle := v_idle + 1;
            CONTINUE;
        END IF;
        IF v_turn.parked IS NOT TRUE AND num_nonnulls(v_room.cost, v_room.tokens) > 0 THEN
            SELECT p.ids, p.cost, p.waits INTO v_new, v_cost, v_wanted FROM pgqueue_pay(
                v_new, v_room.tokens::numeric, v_room.burst, NULL, v_room.cost, v_room.max_cost, 0) AS p;
            v_room.cost := v_room.cost - v_cost;
            v_room.tokens := v_room.tokens - v_cost;
        END IF;
        v_left := CASE WHEN NOT v_turn.parked AND (cardinality(v_new) = v_most OR v_wanted > 0)
            THEN v_left - cardinality(v_new) ELSE 0 END;
        v_free := CASE WHEN v_wanted > 0 THEN 0 WHEN v_turn.parked THEN v_free ELSE v_free - cardinality(v_new) END;
        v_idle := 0;
        v_news := true;
        v_ids := v_ids || v_new;
        UPDATE pgqueue_message AS m SET status = 1, waits_for = NULL, promoted_for = p_limit_id, promoted_at = p_now
        WHERE m.id = ANY (v_new);
    END LOOP;
    INSERT INTO pgqueue_meter AS r (limit_id, turn, turn_left, saved_at, saved_for)
    SELECT p_limit_id, v_channel_id, v_left, CASE WHEN v_wanted > 0 THEN p_now END, v_wanted WHERE v_room.turn >= 0
    ON CONFLICT (limit_id) DO UPDATE SET turn = excluded.turn, turn_left = excluded.turn_left,
        saved_at = excluded.saved_at, saved_for = excluded.saved_for;
    RETURN v_ids;
END;
$$;
