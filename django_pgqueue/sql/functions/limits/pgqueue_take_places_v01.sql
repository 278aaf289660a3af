-- Writes what pgqueue_lease_within has decided: the places that messages take, what the limits have left, which
-- messages are set aside, and which one tries while its breaker is open.
-- p_rooms: the limits that it holds; p_places: one for each message and limit; p_aside: one for each message that is
-- not leased, with the limit that it waits for, or NULL: it stays ready; p_now: its reading of the clock.
-- A message of an ordered channel goes on holding the channel: its lane stays parked, because the message has its only
-- place, until it is promoted or leaves.
-- Locks: messages of the same channels, SKIP LOCKED. The callers pin the plans.
CREATE FUNCTION pgqueue_take_places(
    p_rooms pgqueue_room[], p_places pgqueue_place[], p_aside pgqueue_place[], p_now timestamptz
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_room pgqueue_room;
    v_stale tid[] := '{}';
    v_spent tid[] := '{}';
    v_tries boolean := false;
    v_ready bigint[];
    v_channels bigint[];
    v_costs bigint[];
    v_open bigint[];
    v_full bigint[];
    v_behind record;
BEGIN
    FOREACH v_room IN ARRAY p_rooms LOOP
        v_stale := v_stale || v_room.stale;
        IF v_room.used THEN
            v_spent := v_spent || v_room.spent;
            v_tries := v_tries OR v_room.tries;
        END IF;
    END LOOP;
    IF p_places <> '{}' THEN
        INSERT INTO pgqueue_place SELECT u.* FROM unnest(p_places) AS u;
    END IF;
    IF v_tries THEN
        INSERT INTO pgqueue_breaker_change (limit_id, at, change, message_id)
        SELECT p.limit_id, clock_timestamp(), 'tried', p.message_id
        FROM unnest(p_places) AS p JOIN unnest(p_rooms) AS u ON u.limit_id = p.limit_id AND u.tries;
    END IF;
    INSERT INTO pgqueue_meter AS r (limit_id, tokens, filled_at, place_floor)
    SELECT u.limit_id, u.tokens, p_now, u.place_floor FROM unnest(p_rooms) AS u
    WHERE u.used AND u.place_floor IS NOT NULL
    ON CONFLICT (limit_id) DO UPDATE
    SET tokens = excluded.tokens, place_floor = excluded.place_floor,
        -- A caller that read the clock earlier must not fill the same time twice. A time to come is none: the clock was
        -- set back.
        filled_at = greatest(
            excluded.filled_at, CASE WHEN r.filled_at <= clock_timestamp() THEN r.filled_at END);
    INSERT INTO pgqueue_spent (limit_id, cost, spent_at)
    SELECT u.limit_id, 1, p_now FROM unnest(p_rooms) AS u WHERE u.used AND u.beside AND NOT u.counted;
    IF v_spent <> '{}' THEN
        DELETE FROM pgqueue_spent AS s WHERE s.ctid = ANY (v_spent);
    END IF;
    IF v_stale <> '{}' THEN
        DELETE FROM pgqueue_place AS p WHERE p.ctid = ANY (v_stale);
    END IF;
    IF p_aside <> '{}' THEN
        -- -1 says that the limit of a message that stays ready was locked.
        WITH aside AS (
            UPDATE pgqueue_message AS m
            SET status = CASE WHEN u.limit_id IS NULL THEN 1 ELSE 3 END, waits_for = u.limit_id,
                promoted_for = CASE WHEN u.limit_id IS NULL THEN -1 END
            FROM unnest(p_aside) AS u, pgqueue_channel AS c
            WHERE m.id = u.message_id AND c.id = m.channel_id
            RETURNING m.id, c.id AS channel_id, m.status, m.cost, c.ordered
        )
        SELECT array_agg(a.id) FILTER (WHERE a.status = 1), array_agg(a.channel_id),
            array_agg(-coalesce(a.cost, 1)::bigint), array_agg(a.channel_id) FILTER (WHERE NOT a.ordered)
        INTO v_ready, v_channels, v_costs, v_open
        FROM aside AS a;
        IF v_ready IS NOT NULL THEN
            PERFORM pgqueue_announce(v_ready);
        END IF;
        -- The rates of channels and queues were charged when the messages were taken.
        PERFORM pgqueue_adjust_rates(v_channels, v_costs, p_held => true);
        -- The lane may be parked, because the channel's places were counted as taken: others may have them.
        PERFORM pgqueue_record_departures(v_open, false) WHERE v_open IS NOT NULL;
        -- Those that stand behind in the same channel would be set aside at their turns, one by one: so a backlog of a
        -- hundred thousand leaves the line in a few hundred calls. They have the same limit of their own, or the same
        -- handler if the limit is the handler's, no order key, and cost no less. A limit that another transaction holds
        -- may have room: nothing more is set aside for it.
        v_full := ARRAY(SELECT u.limit_id FROM unnest(p_rooms) AS u WHERE u.held AND NOT pgqueue_has_room(u, 1));
        FOR v_behind IN
            -- named_id: the limit that messages name, when the row is that of a channel.
            SELECT u.limit_id, n.named_id, m.channel_id,
                CASE WHEN n.named_id = ANY (m.limits) THEN NULL ELSE m.handler END AS handler,
                min(coalesce(m.cost, 1)) AS cost
            FROM unnest(ARRAY(
                SELECT a FROM unnest(p_aside) AS a JOIN unnest(p_rooms) AS r ON r.limit_id = a.limit_id AND r.held
            )) AS u
            CROSS JOIN LATERAL (
                SELECT coalesce((SELECT l.parent_id FROM pgqueue_limit AS l WHERE l.id = u.limit_id), u.limit_id)
                    AS named_id
            ) AS n
            -- The OFFSET looks up each message by its key.
            CROSS JOIN LATERAL (SELECT o.* FROM pgqueue_message AS o WHERE o.id = u.message_id OFFSET 0) AS m
            JOIN pgqueue_channel AS c ON c.id = m.channel_id AND NOT c.ordered
            WHERE m.waits_for = u.limit_id
            GROUP BY 1, 2, 3, 4
        LOOP
            UPDATE pgqueue_message AS m SET status = 3, waits_for = v_behind.limit_id, promoted_for = NULL
            WHERE m.id = ANY (ARRAY(
                SELECT o.id FROM pgqueue_message AS o
                WHERE o.status::integer = 1 AND o.id = ANY (ARRAY(
                    SELECT n.id FROM (
                        SELECT r.id, r.handler, r.limits, r.order_key, r.promoted_for, coalesce(r.cost, 1) AS cost
                        FROM pgqueue_message AS r
                        -- No message of the channel is ready before the floor of its lane.
                        JOIN (SELECT l.* FROM pgqueue_lane AS l WHERE l.channel_id = v_behind.channel_id
                            ORDER BY l.seq DESC LIMIT 1) AS l ON l.channel_id = r.channel_id
                        WHERE r.channel_id = v_behind.channel_id AND r.status = 1
                            AND (-r.priority, r.dequeue_at, r.id) >= (l.floor_rank, l.floor_at, l.floor_id)
                        ORDER BY -r.priority, r.dequeue_at, r.id LIMIT 500
                    ) AS n
                    WHERE CASE WHEN v_behind.handler IS NULL THEN v_behind.named_id = ANY (n.limits)
                            ELSE n.handler = v_behind.handler END
                        AND n.order_key IS NULL AND n.cost >= v_behind.cost
                        -- Where a limit has room, those that were made ready because of it may use it.
                        AND (n.promoted_for IS NULL
                            OR n.promoted_for > 0 AND v_behind.limit_id = ANY (v_full))))
                FOR UPDATE SKIP LOCKED));
        END LOOP;
    END IF;
END;
$$;
