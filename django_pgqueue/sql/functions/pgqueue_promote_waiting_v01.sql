-- Makes messages ready that wait for shared limits with room, at most p_most: at 16 limits, which are chosen at random
-- among 1,000. Half of the calls begin at a random limit, so that more than 1,000 limits have their turn, too.
-- Caller: pgqueue_bring_back, pgqueue_tick.
-- p_queue: messages of this queue only, because the transaction of a dequeue may stay open. p_now: the caller's reading
-- of the clock.
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
BEGIN
    IF random() < 0.5 THEN
        SELECT floor(random() * w.last)::bigint INTO v_from
        FROM (SELECT m.waits_for AS last FROM pgqueue_message AS m
            WHERE m.waits_for >= 0 ORDER BY m.waits_for DESC LIMIT 1) AS w;
    END IF;
    FOR v_limit_id IN
        -- Looks at others in each call: the first ones may be full, or paused, for long.
        SELECT n.id FROM pgqueue_waiting_limits(v_from, 1000) AS n (id) ORDER BY random() LIMIT 16
    LOOP
        EXIT WHEN cardinality(v_ids) >= p_most;
        -- This look needs no lock: a dequeue that finds the limit full writes nothing and hinders no other.
        CONTINUE WHEN EXISTS (
            SELECT FROM pgqueue_limit AS l CROSS JOIN LATERAL pgqueue_limit_room(l, p_now) AS r
            WHERE l.id = v_limit_id AND (r.places < 1 OR r.cost < 1 OR r.tokens < 1));
        v_ids := v_ids || pgqueue_promote_within(v_limit_id, p_queue, p_most - cardinality(v_ids), p_now);
    END LOOP;
    IF v_ids <> '{}' THEN
        PERFORM pgqueue_announce(v_ids);
    END IF;
    RETURN cardinality(v_ids);
END;
$$;
