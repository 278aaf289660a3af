-- Locks a shared limit until the end of the transaction, and reads how much room it has.
-- p_now: the caller's reading of the clock. p_patient: ask for a locked limit 10 times, with a millisecond between:
-- other dequeues hold it until they commit, and a message whose limit cannot be read has to be set aside. p_beside: the
-- call is for one message of cost 1, in a transaction that had not written before: it passes beside others if it can
-- (pgqueue_hold_side). p_alone: without it the caller takes no places, and others may pass beside.
-- Returns held: false when another transaction holds the limit, when an open one may have leased messages without it
--   (pgqueue_count_older), or when this one was stopped since it read the clock; then the rest does not matter. A limit
--   that was deleted limits nothing. The rest is that of pgqueue_limit_room; beside others most of it is NULL.
-- Locks: pg_try_advisory_xact_lock of the limit, unless it is that of a channel: so no other dequeue passes beside.
--   Then the row of pgqueue_limit, SKIP LOCKED. Its holder alone writes the row of pgqueue_meter.
CREATE FUNCTION pgqueue_hold_limit(
    p_limit_id bigint, p_now timestamptz, p_patient boolean, p_beside boolean DEFAULT false,
    p_alone boolean DEFAULT true
)
RETURNS pgqueue_room
LANGUAGE plpgsql
AS $$
DECLARE
    v_limit pgqueue_limit;
    v_now record;
    v_room pgqueue_room;
    v_most integer;
BEGIN
    v_room.limit_id := p_limit_id;
    v_room.used := false;
    v_room.tries := false;
    v_room.per_channel := false;
    FOR v_try IN 1..CASE WHEN p_patient THEN 10 ELSE 1 END LOOP
        IF p_beside THEN
            v_room.places := pgqueue_hold_side(p_limit_id, p_now);
            v_room.beside := v_room.places > 0;
            EXIT WHEN v_room.beside;
        END IF;
        SELECT l.* INTO v_limit FROM pgqueue_limit AS l
        WHERE l.id = p_limit_id AND (
            l.parent_id IS NOT NULL OR NOT p_alone OR pg_try_advisory_xact_lock(hashint8extended(p_limit_id, 7220)))
        FOR NO KEY UPDATE SKIP LOCKED;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.id = p_limit_id);
        PERFORM pg_sleep(0.001) WHERE p_patient;
    END LOOP;
    IF v_room.beside THEN
        v_room.held := true;
        v_room.counted := (SELECT l.release_interval IS NULL FROM pgqueue_limit AS l WHERE l.id = p_limit_id);
    ELSIF v_limit.id IS NULL THEN
        v_room.held := NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.id = p_limit_id);
        RETURN v_room;
    ELSE
        IF v_limit.breaker_failures IS NOT NULL THEN
            v_limit := pgqueue_turn_breaker(v_limit, p_now);
        END IF;
        v_room.tries := v_limit.open_until IS NOT NULL;
        v_room.per_channel := v_limit.per IS NOT NULL AND v_limit.parent_id IS NULL
            AND v_limit.breaker_failures IS NULL;
        v_room.counted := v_limit.open_until IS NOT NULL
            OR num_nonnulls(v_limit.max_concurrency, v_limit.max_cost) > 0 AND NOT v_room.per_channel
            OR v_limit.parent_id IS NOT NULL AND v_limit.breaker_failures IS NULL;
        -- A statement of its own, because its snapshot must be younger than the lock.
        SELECT r.* INTO v_now FROM pgqueue_limit_room(v_limit, p_now) AS r;
        v_room.held := FOUND;
        IF v_now.awaited IS NOT NULL THEN
            v_room.held := pgqueue_count_older(p_limit_id, v_now.awaited);
            SELECT r.* INTO v_now FROM pgqueue_limit_room(v_limit, p_now) AS r;
        END IF;
        v_room.places := v_now.places;
        v_room.cost := v_now.cost;
        v_room.max_cost := v_now.max_cost;
        v_room.tokens := v_now.tokens;
        v_room.burst := v_now.burst;
        v_room.place_floor := v_now.place_floor;
        v_room.stale := v_now.stale;
        v_room.spent := v_now.spent;
        v_room.turn := v_now.turn;
        v_room.turn_left := v_now.turn_left;
        v_room.saved_at := v_now.saved_at;
    END IF;
    -- As much waits as there is room for. More than a hundred messages are not counted.
    v_most := greatest(least(v_room.places, v_room.cost, floor(v_room.tokens), 100), 1);
    v_room.waited := coalesce((
        SELECT count(*) = v_most OR sum(n.cost) >= least(v_room.cost, v_room.tokens)
        FROM (
            SELECT coalesce(m.cost, 1) AS cost FROM pgqueue_message AS m WHERE m.waits_for = p_limit_id LIMIT v_most
        ) AS n), false);
    RETURN v_room;
END;
$$;
