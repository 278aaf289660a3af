-- Repairs the data that the queue keeps beside its messages, where it disagrees with them: counts of live messages
-- (max_size), floors and lists of leases (max_concurrency), places in the line, and messages that wait for their order
-- key without need. None of it should ever be needed; after it, nothing disagrees.
-- It is safe while the queue works, and when it is repeated. It looks at p_most channels of each kind at most.
-- Returns the number of repairs of each kind.
-- Locks: rows of pgqueue_channel_size, lanes, gates and messages, SKIP LOCKED: rows in use are left alone.
CREATE FUNCTION pgqueue_repair(p_most integer DEFAULT 10000, OUT counts integer, OUT lease_floors integer,
    OUT places integer)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_gates integer;
    v_next_ids bigint[];
    v_stuck bigint[];
    v_keys pgqueue_order_note[];
BEGIN
    counts := pgqueue_recount(ARRAY(SELECT s.channel_id FROM pgqueue_channel_size AS s
        ORDER BY s.channel_id LIMIT p_most));

    -- A lease below the floor is not counted: the channel would run more than its limit.
    UPDATE pgqueue_lane AS l
    SET lease_floor = '-infinity'
    WHERE l.ctid = ANY (ARRAY(
        SELECT s.ctid FROM pgqueue_lane AS s
        WHERE s.lease_floor > '-infinity' AND EXISTS (
            SELECT FROM pgqueue_message AS m
            WHERE m.channel_id = s.channel_id AND m.status = 2 AND m.leased_at < s.lease_floor)
        LIMIT p_most
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS lease_floors = ROW_COUNT;
    -- The same for a lease that the gate of its queue does not list: the list is made anew.
    UPDATE pgqueue_gate AS g
    SET seen_at = NULL
    WHERE g.ctid = ANY (ARRAY(
        SELECT s.ctid FROM pgqueue_gate AS s
        WHERE s.seen_at IS NOT NULL AND EXISTS (
            SELECT FROM pgqueue_queue_leases(s.queue, NULL) AS l
            WHERE l.id <> ALL (s.held || pgqueue_beside_gate(s.queue)))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_gates = ROW_COUNT;
    lease_floors := lease_floors + v_gates;

    -- A message below the floor of its lane, or of a channel that has no lane, would never be found. The arrival
    -- lowers the floor.
    SELECT array_agg(s.next_id) FILTER (WHERE s.problem = 'hidden'),
        array_agg(s.channel_id) FILTER (WHERE s.problem = 'parked'),
        array_agg(ROW(s.channel_id, m.order_key)::pgqueue_order_note) FILTER (WHERE s.problem = 'unreleased')
    INTO v_next_ids, v_stuck, v_keys
    FROM pgqueue_find_unreachable(p_most) AS s
    JOIN pgqueue_message AS m ON m.id = s.next_id;
    PERFORM pgqueue_announce(v_next_ids);
    INSERT INTO pgqueue_arrival (queue, channel_id)
    SELECT c.queue, c.id FROM pgqueue_channel AS c WHERE c.id = ANY (v_stuck);
    places := coalesce(cardinality(v_next_ids), 0) + coalesce(cardinality(v_stuck), 0)
        + pgqueue_release_keys(v_keys, false);
END;
$$;
