-- Writes what pgqueue_lease_within has decided: the places that messages take, what the limits have left, which
-- messages are set aside, and which one tries while its breaker is open.
-- Caller: pgqueue_lease_within.
-- p_rooms: the limits that it holds; p_places: one for each message and limit; p_aside: one for each message that is
-- not leased, with the limit that it waits for, or NULL: it stays ready; p_now: its reading of the clock.
-- Locks: messages of the same channels, SKIP LOCKED (pgqueue_set_aside_behind).
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
    IF v_spent <> '{}' THEN
        DELETE FROM pgqueue_spent AS s WHERE s.ctid = ANY (v_spent);
    END IF;
    IF v_stale <> '{}' THEN
        DELETE FROM pgqueue_place AS p WHERE p.ctid = ANY (v_stale);
    END IF;
    IF p_aside <> '{}' THEN
        -- A message of an ordered channel keeps its place, and holds the channel until the next look. In other channels
        -- -1 says that the limit of a ready message was locked.
        WITH aside AS (
            UPDATE pgqueue_message AS m
            SET status = CASE WHEN c.ordered OR u.limit_id IS NULL THEN 1 ELSE 3 END,
                waits_for = CASE WHEN NOT c.ordered THEN u.limit_id END,
                promoted_for = CASE WHEN NOT c.ordered AND u.limit_id IS NULL THEN -1 END,
                held_until = CASE WHEN c.ordered THEN p_now + CASE WHEN u.limit_id IS NULL
                    THEN interval '10 milliseconds' ELSE interval '1 second' END END
            FROM unnest(p_aside) AS u, pgqueue_channel AS c
            WHERE m.id = u.message_id AND c.id = m.channel_id
            RETURNING m.id, c.id AS channel_id, m.status, m.cost
        )
        SELECT array_agg(a.id) FILTER (WHERE a.status = 1), array_agg(a.channel_id),
            array_agg(-coalesce(a.cost, 1)::bigint)
        INTO v_ready, v_channels, v_costs
        FROM aside AS a;
        IF v_ready IS NOT NULL THEN
            PERFORM pgqueue_announce(v_ready);
        END IF;
        -- The rates of channels and queues were charged when the messages were taken.
        PERFORM pgqueue_adjust_rates(v_channels, v_costs, p_held => true);
        -- The lane may be parked, because the channel's places were counted as taken: others may have them.
        PERFORM pgqueue_record_departures(v_channels, false);
        PERFORM pgqueue_set_aside_behind(p_aside, ARRAY(
            SELECT u.limit_id FROM unnest(p_rooms) AS u WHERE u.held AND NOT pgqueue_has_room(u, 1)));
    END IF;
END;
$$;
