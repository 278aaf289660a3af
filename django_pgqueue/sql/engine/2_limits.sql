-- Returns what one side of a meter has left for a message of cost p_wants: slots, for so many messages; units, for so much
-- cost in all; when there is no room, the reason (closed, full, cost, rate) and until when that holds at most.
CREATE FUNCTION pgqueue_side_room(
    m pgqueue_meter, l pgqueue_level, p_wants integer, p_now timestamptz,
    OUT slots integer, OUT units double precision, OUT reason text, OUT until timestamptz
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_tokens double precision;
BEGIN
    until := 'infinity';
    -- The parts of the sides add up to the limit.
    slots := coalesce(m.max_concurrency / m.sides + CASE WHEN l.side < m.max_concurrency % m.sides THEN 1 ELSE 0 END
        - l.running, 1000000);
    units := coalesce((m.max_cost - l.cost)::double precision, 'infinity');
    IF m.closed_until > p_now THEN
        slots := 0;
        reason := 'closed';
        until := m.closed_until;
    ELSIF slots <= 0 THEN
        slots := 0;
        reason := 'full';
    ELSIF units < least(p_wants, m.max_cost) THEN
        slots := 0;
        reason := 'cost';
    ELSIF m.step IS NOT NULL THEN
        v_tokens := pgqueue_tokens(m, l, p_now);
        IF v_tokens + 1e-6 < least(p_wants, m.burst) THEN
            slots := 0;
            reason := 'rate';
            until := p_now + (least(p_wants, m.burst) - v_tokens) * m.step;
        ELSE
            units := least(units, v_tokens + 1e-6);
        END IF;
    END IF;
END;
$$;

-- Returns the tokens in the bucket of a meter at p_now; below 0 while it has debts.
CREATE FUNCTION pgqueue_tokens(m pgqueue_meter, l pgqueue_level, p_now timestamptz)
RETURNS double precision
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
    RETURN least(m.burst, l.tokens
        + extract(epoch FROM greatest(p_now - l.filled_at, '0')) / extract(epoch FROM m.step));
END;
$$;

-- Locks one side of each meter that has room for a message of cost p_wants.
-- Returns sides, each meter_id × 16 + side; slots and units, the least of them; or the first meter without room, with the
-- reason and until when. held: another transaction has the sides that may have room; a patient call looks again five
-- times, a millisecond apart, because most commit by then.
-- Locks: levels, SKIP LOCKED.
CREATE FUNCTION pgqueue_claim(
    p_meters bigint[], p_wants integer, p_patient boolean, p_now timestamptz,
    OUT sides bigint[], OUT slots integer, OUT units double precision, OUT closed bigint, OUT reason text,
    OUT until timestamptz
)
LANGUAGE plpgsql
AS $$
DECLARE
    x bigint;
    m pgqueue_meter;
    l pgqueue_level;
    r record;
    v_room integer;
    v_held boolean;
BEGIN
    sides := '{}';
    slots := 1000000;
    units := 'infinity';
    FOREACH x IN ARRAY coalesce(p_meters, '{}') LOOP
        SELECT o.* INTO m FROM pgqueue_meter AS o WHERE o.id = x;
        CONTINUE WHEN NOT FOUND;
        v_held := false;
        v_room := 0;
        FOR v_try IN 1..m.sides * CASE WHEN p_patient THEN 6 ELSE 1 END LOOP
            PERFORM pg_sleep(0.001) WHERE v_held AND v_try % m.sides = 0;
            SELECT o.* INTO l FROM pgqueue_level AS o
            WHERE o.meter_id = x AND o.side = (pg_backend_pid() + v_try) % m.sides
            ORDER BY o.seq DESC LIMIT 1;
            r := pgqueue_side_room(m, l, p_wants, p_now);
            CONTINUE WHEN r.slots <= 0;
            -- A look without room locks and writes nothing.
            SELECT o.* INTO l FROM pgqueue_level AS o
            WHERE o.meter_id = x AND o.side = (pg_backend_pid() + v_try) % m.sides
            ORDER BY o.seq DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
            v_held := v_held OR NOT FOUND;
            CONTINUE WHEN NOT FOUND;
            r := pgqueue_side_room(m, l, p_wants, p_now);
            v_room := r.slots;
            EXIT WHEN v_room > 0;
        END LOOP;
        IF v_room <= 0 THEN
            slots := 0;
            closed := x;
            reason := 'held';
            IF NOT v_held THEN
                reason := r.reason;
                until := r.until;
            END IF;
            RETURN;
        END IF;
        sides := sides || x * 16 + l.side;
        slots := least(slots, v_room);
        units := least(units, r.units);
    END LOOP;
END;
$$;

-- Returns whether a meter has room for a message of cost p_wants on any side, and until when not; locks nothing.
CREATE FUNCTION pgqueue_has_room(
    p_meter_id bigint, p_wants integer, p_now timestamptz, OUT room boolean, OUT until timestamptz
)
LANGUAGE plpgsql
AS $$
DECLARE
    m pgqueue_meter;
    l pgqueue_level;
    r record;
BEGIN
    room := false;
    until := 'infinity';
    SELECT o.* INTO m FROM pgqueue_meter AS o WHERE o.id = p_meter_id;
    FOR v_side IN 0..m.sides - 1 LOOP
        SELECT o.* INTO l FROM pgqueue_level AS o WHERE o.meter_id = p_meter_id AND o.side = v_side
        ORDER BY o.seq DESC LIMIT 1;
        r := pgqueue_side_room(m, l, p_wants, p_now);
        room := r.slots > 0;
        until := least(until, r.until);
        EXIT WHEN room;
    END LOOP;
END;
$$;

-- Charges sides of meters, which the caller has locked, with p_count messages that cost p_cost in all, below 0 to take it
-- back, and with p_spent tokens.
CREATE FUNCTION pgqueue_charge(p_sides bigint[], p_count integer, p_cost bigint, p_spent bigint, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE pgqueue_level AS l
    SET seq = nextval('pgqueue_level_seq'), running = greatest(l.running + p_count, 0),
        cost = greatest(l.cost + p_cost, 0),
        tokens = CASE WHEN m.step IS NOT NULL THEN pgqueue_tokens(m, l, p_now) - p_spent ELSE l.tokens END,
        -- A call that has read the clock before another one, and charges after it, must not set the bucket back.
        filled_at = CASE WHEN m.step IS NOT NULL THEN greatest(l.filled_at, p_now) ELSE l.filled_at END
    FROM pgqueue_meter AS m
    WHERE m.id = l.meter_id AND l.ctid = ANY (ARRAY(
        SELECT (SELECT o.ctid FROM pgqueue_level AS o WHERE o.meter_id = u / 16 AND o.side = u % 16
            ORDER BY o.seq DESC LIMIT 1)
        FROM unnest(p_sides) AS u));
END;
$$;

-- Returns the shared meters that a message with these limits and this handler is charged to, sorted; NULL: none.
CREATE FUNCTION pgqueue_meters_of(p_limits bigint[], p_handler text)
RETURNS bigint[]
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN nullif(ARRAY(
        SELECT u FROM unnest(p_limits) AS u
        UNION
        SELECT h.meter_id FROM pgqueue_meter_handler AS h WHERE h.handler = p_handler
        ORDER BY 1), '{}');
END;
$$;

-- Returns the id of the lane of a set of meters, 0 for none.
CREATE FUNCTION pgqueue_lane_of(p_meters bigint[])
RETURNS bigint
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
    RETURN CASE WHEN p_meters IS NULL THEN 0 ELSE 1 + (hashtextextended(p_meters::text, 1) & 4611686018427387903) END;
END;
$$;

-- Returns the id of the lane of an order key.
CREATE FUNCTION pgqueue_lane_of_key(p_key text)
RETURNS bigint
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
    RETURN -1 - (hashtextextended(p_key, 2) & 4611686018427387903);
END;
$$;

-- Returns whether another message of its order key comes before this one: one that has been delivered and is not
-- settled for good, or one with an earlier place that is ready.
CREATE FUNCTION pgqueue_key_is_held(p_channel_id bigint, p_key text, p_id bigint, p_place bigint)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgqueue_live AS o
        WHERE o.channel_id = p_channel_id AND o.order_key = p_key AND (o.attempts = 0) = false AND o.id <> p_id
    ) OR EXISTS (
        SELECT FROM pgqueue_live AS o
        WHERE o.channel_id = p_channel_id AND o.order_key = p_key AND (o.attempts = 0) = true
            AND coalesce(o.order_place, o.id) < p_place AND o.status = 1
    );
END;
$$;
