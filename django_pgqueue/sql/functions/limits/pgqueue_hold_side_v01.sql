-- Lets a dequeue of one message take a place of a shared limit beside others, while the limit is far from full: up to
-- eight at the same time.
-- Each of them holds the lock of one of eight sides, and takes one place. The count is exact: of those that pass beside
-- each other, the one that looks last sees all places but those of the seven others, which are not committed. So if
-- eight are free when it looks, none is taken twice. Places that are free again count here, because each look at their
-- messages would cost more; so that they are deleted in time, no more than 1,000 rows are counted. Tokens of a rate are
-- taken in the same way, one each: rows of pgqueue_spent say so until the limit is held alone (pgqueue_limit_room), a
-- sixteenth of the burst and 1,000 rows at most. All of them hold the limit's lock in common, and pgqueue_hold_limit takes
-- it alone.
-- The callers have made sure that the transaction has not written before: it could have taken places already, of which
-- the others would count one only. p_now: the caller's reading of the clock. The exception gives the locks back: those
-- that keep them would hinder each other in pgqueue_hold_limit.
-- Returns how many places, or tokens, are free at least; NULL: the message may not pass.
-- Locks: pg_try_advisory_xact_lock of the limit, shared, and of a side. It never waits.
CREATE FUNCTION pgqueue_hold_side(p_limit_id bigint, p_now timestamptz)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_held boolean := false;
    v_free integer;
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_limit AS l WHERE l.id = p_limit_id AND pgqueue_may_pass(l)) THEN
        RETURN NULL;
    ELSIF pg_try_advisory_xact_lock_shared(hashint8extended(p_limit_id, 7220)) THEN
        FOR v_try IN 1..8 LOOP
            v_held := pg_try_advisory_xact_lock(hashint8extended(p_limit_id, 7221 + (pg_backend_pid() + v_try) % 8));
            EXIT WHEN v_held;
        END LOOP;
        -- This look is younger than the locks. Before the floor, places are not counted: the caller was stopped.
        SELECT CASE
                WHEN l.release_interval IS NULL THEN least(l.max_concurrency, 1000) - (
                    SELECT count(*) FROM (
                        SELECT FROM pgqueue_place AS p
                        WHERE p.limit_id = l.id AND p.placed_at >= coalesce(r.place_floor, '-infinity') LIMIT 1000
                    ) AS n)
                ELSE (
                    SELECT floor(n.tokens) FROM pgqueue_limit_room(l, p_now) AS n
                    WHERE coalesce(cardinality(n.spent), 0) < least(l.release_burst / 16, 1000))
            END
        INTO v_free
        FROM pgqueue_limit AS l
        LEFT JOIN pgqueue_meter AS r ON r.limit_id = l.id
        WHERE l.id = p_limit_id AND v_held AND pgqueue_may_pass(l) AND l.paused_at IS NULL
            AND r.awaited IS NULL AND coalesce(r.place_floor, '-infinity') <= p_now;
        IF v_free >= 8 THEN
            RETURN v_free;
        END IF;
    END IF;
    RAISE lock_not_available;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN NULL;
END;
$$;
