-- Takes up to p_limit messages of a queue and leases them: the long way of pgqueue_dequeue, which documents the
-- parameters.
-- p_guarded: the caller has seen that the settings of the queue must be looked at (pgqueue_line). p_looked: it has
-- brought messages back. p_beside: as in pgqueue_hold_limit.
-- With fewer than p_limit it brings back expired leases and scheduled messages that are due (pgqueue_bring_back), and
-- takes again. The settings of pgqueue_dequeue pin the plans.
-- Locks: lanes and messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_dequeue_many(
    p_queue text, p_limit integer, p_lease interval, p_worker text, p_guarded boolean, p_looked boolean,
    p_beside boolean DEFAULT false
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    v_taken record;
    v_token uuid := gen_random_uuid();
    v_count integer := 0;
    v_try integer := 0;
    v_most integer := CASE WHEN p_looked THEN 4 ELSE 5 END;
    v_leased integer;
    v_aside integer := 0;
    v_until timestamptz := clock_timestamp() + interval '25 milliseconds';
BEGIN
    WHILE v_try < v_most LOOP
        v_try := v_try + 1;
        IF p_guarded THEN
            v_taken := pgqueue_take_guarded(p_queue, p_limit - v_count, NULL, NULL);
        ELSE
            v_taken := pgqueue_take(p_queue, p_limit - v_count);
        END IF;
        -- While another dequeue holds the gate of the queue, the rest would be done in vain.
        EXIT WHEN v_taken.ids IS NULL;
        -- Repeats at once: the arrivals that were folded last stand in the line only now.
        CONTINUE WHEN v_taken.ids = '{}' AND v_taken.contended AND v_try = 1;
        IF v_taken.ids <> '{}' THEN
            RETURN QUERY SELECT l.* FROM pgqueue_lease(
                v_taken.ids, v_taken.taken_at, p_lease, p_worker, v_token, v_aside = 0, p_beside) AS l;
            GET DIAGNOSTICS v_leased = ROW_COUNT;
            v_count := v_count + v_leased;
            IF v_leased < cardinality(v_taken.ids) AND v_aside < 4 AND clock_timestamp() < v_until THEN
                PERFORM pgqueue_keep_turns(v_taken.ids);
            END IF;
            -- Another dequeue holds the limit of a message that stays ready: this one would only find it again.
            EXIT WHEN v_leased < cardinality(v_taken.ids) AND EXISTS (
                SELECT FROM pgqueue_message AS m WHERE m.id = ANY (v_taken.ids) AND m.status::integer = 1);
            IF v_leased < cardinality(v_taken.ids) AND v_aside < 1000 AND clock_timestamp() < v_until THEN
                -- Others may stand behind the messages that were set aside, because a shared limit is full.
                -- After some time the caller gets an empty answer and asks again: it must not hold locks for long.
                v_aside := v_aside + 1;
                v_try := v_try - 1;
                CONTINUE;
            END IF;
        END IF;
        -- Repeats once at most with some messages, a few times with none: those that come back may be of channels at
        -- their limit.
        EXIT WHEN v_count = p_limit OR (v_count > 0 AND p_looked)
            OR pgqueue_bring_back(p_queue, p_limit - v_count, v_taken.taken_at, p_worker) = 0;
        p_looked := true;
    END LOOP;
END;
$$;
