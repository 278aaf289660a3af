-- Makes messages ready that wait for shared limits with room, at most p_most: at 16 limits, a tick at 100, which are
-- chosen at random among 1,000: the first ones, or, in half of the calls, those behind them, or somewhere behind them, and
-- so on. So limits that are one for each of a hundred thousand channels hide none. Rows of channels whose next token has
-- not come are left out.
-- p_queue: messages of this queue only, because the transaction of a dequeue may stay open; NULL: a tick. p_now: the
-- caller's reading of the clock.
-- Returns the number of messages. They take no place yet: pgqueue_lease_within checks them when they are leased.
-- Locks: limits, then messages, all SKIP LOCKED.
CREATE FUNCTION pgqueue_promote_waiting(p_queue text, p_most integer, p_now timestamptz)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_limit_id bigint;
    v_ids bigint[] := '{}';
    v_from bigint := 0;
    v_limit_ids bigint[];
BEGIN
    LOOP
        v_limit_ids := ARRAY(SELECT n.id FROM pgqueue_waiting_limits(v_from, 1000) AS n (id));
        EXIT WHEN cardinality(v_limit_ids) < 1000 OR random() < 0.5;
        v_from := v_limit_ids[1000] + 1;
        IF random() < 0.5 THEN
            SELECT v_from + floor(random() * (m.waits_for - v_from))::bigint INTO v_from
            FROM pgqueue_message AS m WHERE m.waits_for >= v_from ORDER BY m.waits_for DESC LIMIT 1;
        END IF;
    END LOOP;
    FOR v_limit_id IN
        -- Looks at others in each call: the first ones may be full, or paused, for long.
        SELECT u FROM unnest(v_limit_ids) AS u
        WHERE NOT EXISTS (
            SELECT
            FROM pgqueue_limit AS l
            JOIN pgqueue_limit AS s ON s.id = l.parent_id
            JOIN pgqueue_meter AS r ON r.limit_id = l.id
            WHERE l.id = u AND r.filled_at <= p_now
                AND r.filled_at + pgqueue_token_time(s.release_interval, (1 - r.tokens)::numeric) > p_now
                AND NOT EXISTS (SELECT FROM pgqueue_spent AS n WHERE n.limit_id = l.id))
        ORDER BY random() LIMIT CASE WHEN p_queue IS NULL THEN 100 ELSE 16 END
    LOOP
        EXIT WHEN cardinality(v_ids) >= p_most;
        -- This look needs no lock: a dequeue that finds the limit full, or no message of its queue, hinders no other.
        -- Mostly the first channel is of its queue.
        CONTINUE WHEN EXISTS (
            SELECT FROM pgqueue_limit AS l CROSS JOIN LATERAL pgqueue_limit_room(l, p_now) AS r
            WHERE l.id = v_limit_id AND (r.places < 1 OR r.cost < 1 OR r.tokens < 1 OR r.saves
                OR p_queue IS NOT NULL AND NOT EXISTS (
                    SELECT FROM pgqueue_waiting_channels(v_limit_id, r.turn, 1) AS n (id)
                    JOIN pgqueue_channel AS c ON c.id = n.id AND c.queue = p_queue
                ) AND NOT EXISTS (
                    SELECT FROM pgqueue_waiting_channels(v_limit_id, r.turn, 100) AS n (id)
                    JOIN pgqueue_channel AS c ON c.id = n.id AND c.queue = p_queue)));
        v_ids := v_ids || pgqueue_promote_within(v_limit_id, p_queue, p_most - cardinality(v_ids), p_now);
    END LOOP;
    IF v_ids <> '{}' THEN
        PERFORM pgqueue_announce(v_ids);
        PERFORM pgqueue_unpark_ordered(v_ids);
    END IF;
    RETURN cardinality(v_ids);
END;
$$;
