-- Checks messages that are about to be leased against their shared limits, and takes a place in each limit for those
-- that may run. A message whose limit is full is set aside: it blocks no other, until pgqueue_promote_waiting makes it
-- ready. So is a message that has not waited while as many others do as the limit has room for: the channels take turns
-- at places that become free, and a stream of new messages must not have all of them. A message whose limit another
-- transaction holds stays ready for the next dequeue. If that finds the limit locked, too, it sets the message aside,
-- and those that it finds after it: the other transaction may stay open for long. A message of an ordered channel is
-- set aside at once, and holds its channel.
-- p_ids: locked by the caller, in the order of service; p_now: the caller's reading of the clock, which becomes
-- leased_at. p_patient, p_beside: see pgqueue_hold_limit. A message has its own limits and those of its handler.
-- Returns the ids that may be leased, in the same order.
-- Locks: rows of pgqueue_limit, SKIP LOCKED, until the end of the transaction: so a limit is exact for all workers.
CREATE FUNCTION pgqueue_lease_within(
    p_ids bigint[], p_now timestamptz, p_patient boolean DEFAULT true, p_beside boolean DEFAULT false
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_message record;
    v_limit_id bigint;
    v_own_id bigint;
    v_own_ids bigint[];
    v_passed boolean;
    v_watched bigint[];
    v_asked bigint;
    v_limit_ids bigint[] := '{}';
    v_rooms pgqueue_room[] := '{}';
    v_at integer;
    v_ids bigint[] := '{}';
    v_places pgqueue_place[] := '{}';
    v_aside pgqueue_place[] := '{}';
BEGIN
    FOR v_message IN
        SELECT m.id, coalesce(m.cost, 1) AS cost, m.channel_id, n.limits, n.breaker_id,
            m.promoted_for = -1 OR EXISTS (
                SELECT FROM pgqueue_channel AS c WHERE c.id = m.channel_id AND c.ordered) AS is_late,
            (m.promoted_for > 0) IS NOT TRUE AS is_new
        FROM unnest(p_ids) WITH ORDINALITY AS u (id, place)
        CROSS JOIN LATERAL (SELECT o.* FROM pgqueue_message AS o WHERE o.id = u.id OFFSET 0) AS m
        CROSS JOIN LATERAL (
            SELECT coalesce(array_agg(l.id ORDER BY l.id) FILTER (WHERE NOT l.breaker), '{}') AS limits,
                max(l.id) FILTER (WHERE l.breaker) AS breaker_id
            FROM (
                SELECT unnest(m.limits) AS id, false AS breaker
                UNION
                SELECT h.limit_id, h.breaker FROM pgqueue_limit_handler AS h WHERE h.handler = m.handler
            ) AS l
        ) AS n
        ORDER BY u.place
    LOOP
        v_passed := false;
        v_own_ids := '{}';
        IF v_message.breaker_id IS NOT NULL THEN
            IF ARRAY[v_message.breaker_id, v_message.channel_id] IS DISTINCT FROM v_watched THEN
                v_watched := ARRAY[v_message.breaker_id, v_message.channel_id];
                v_asked := pgqueue_watch_breaker(v_message.breaker_id, v_message.channel_id);
            END IF;
            v_message.limits := array_remove(v_message.limits || v_asked, NULL);
        END IF;
        FOREACH v_limit_id IN ARRAY v_message.limits LOOP
            v_own_id := coalesce(pgqueue_own_limit(v_limit_id, v_message.channel_id), v_limit_id);
            FOR v_try IN 1..2 LOOP
                IF v_own_id <> ALL (v_limit_ids) THEN
                    v_limit_ids := v_limit_ids || v_own_id;
                    v_rooms := v_rooms || pgqueue_hold_limit(v_own_id, p_now, p_patient, p_beside AND v_message.cost = 1);
                END IF;
                v_at := array_position(v_limit_ids, v_own_id);
                EXIT WHEN (v_rooms[v_at].per_channel AND v_rooms[v_at].held) IS NOT TRUE;
                -- It is a limit for each channel, and this channel has no row of it yet.
                v_own_id := pgqueue_limit_of_channel(l, v_message.channel_id)
                    FROM pgqueue_limit AS l WHERE l.id = v_limit_id;
            END LOOP;
            v_own_ids := v_own_ids || v_own_id;
            -- The row of the handler says nothing about the breaker of a channel, whose row could not be made while
            -- another transaction held that one: now it can.
            -- The row of a channel may have been pruned since it was looked up: only then it has no floor.
            IF NOT pgqueue_has_room(v_rooms[v_at], v_message.cost) OR v_message.is_new AND v_rooms[v_at].waited
                OR v_own_id <> v_limit_id AND v_rooms[v_at].place_floor IS NULL
                OR v_limit_id = v_message.breaker_id
                AND pgqueue_watch_breaker(v_limit_id, v_message.channel_id) <> v_limit_id THEN
                v_passed := true;
                v_aside := v_aside || ROW(CASE WHEN v_rooms[v_at].held OR v_message.is_late OR NOT p_patient
                    THEN v_own_id END, v_message.id, p_now)::pgqueue_place;
                EXIT;
            END IF;
        END LOOP;
        CONTINUE WHEN v_passed;
        v_ids := v_ids || v_message.id;
        FOREACH v_own_id IN ARRAY v_own_ids LOOP
            v_at := array_position(v_limit_ids, v_own_id);
            v_rooms[v_at].used := true;
            v_rooms[v_at].places := v_rooms[v_at].places - 1;
            v_rooms[v_at].cost := v_rooms[v_at].cost - v_message.cost;
            v_rooms[v_at].tokens := v_rooms[v_at].tokens - v_message.cost;
            IF v_rooms[v_at].counted THEN
                v_places := v_places || ROW(v_own_id, v_message.id, p_now)::pgqueue_place;
            END IF;
        END LOOP;
    END LOOP;
    IF v_limit_ids <> '{}' THEN
        PERFORM pgqueue_take_places(v_rooms, v_places, v_aside, p_now);
    END IF;
    RETURN v_ids;
END;
$$;
