-- Enqueues one message. It exists if and only if the caller's transaction commits.
CREATE FUNCTION pgqueue_enqueue(
    p_handler text,
    p_payload jsonb DEFAULT '{}',
    p_channel text DEFAULT 'default',
    p_queue text DEFAULT 'default',
    p_priority integer DEFAULT 0,
    p_delay interval DEFAULT NULL,
    p_order_key text DEFAULT NULL,
    p_limits bigint[] DEFAULT NULL,
    p_cost integer DEFAULT NULL,
    OUT id bigint,
    OUT outcome text
)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
AS $$
DECLARE
    c record;
    v_now timestamptz := clock_timestamp();
    v_lane bigint;
BEGIN
    IF p_handler = '' OR octet_length(p_payload::text) > 67108864 OR p_priority NOT BETWEEN -32767 AND 32767
        OR p_cost < 1 THEN
        RAISE EXCEPTION 'invalid message' USING ERRCODE = 'PGQ07';
    END IF;
    SELECT o.id, o.queue_id, o.ordered,
        (SELECT l.parked_for IS NULL AND l.stands = 1 AND (l.floor_rank, l.floor_at) <= (-p_priority, v_now)
        FROM pgqueue_lane AS l WHERE l.channel_id = o.id AND l.lane = 0 ORDER BY l.seq DESC LIMIT 1) AS lazy,
        CASE WHEN p_limits IS NOT NULL OR EXISTS (
            SELECT FROM pgqueue_meter_handler AS h WHERE h.handler = p_handler) THEN
            pgqueue_lane_of(pgqueue_meters_of(p_limits, p_handler)) ELSE 0 END AS lane
    INTO c
    FROM pgqueue_queue AS q JOIN pgqueue_channel AS o ON o.queue_id = q.id AND o.name = p_channel
    WHERE q.name = p_queue AND o.released_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'channel not found' USING ERRCODE = 'PGQ03';
    END IF;
    v_lane := CASE WHEN c.ordered THEN 0 ELSE c.lane END;
    INSERT INTO pgqueue_live (channel_id, lane, handler, payload, priority, dequeue_at, status, order_key, limits, cost)
    VALUES (c.id, v_lane, p_handler, coalesce(p_payload, 'null'), p_priority, v_now + coalesce(p_delay, '0'),
        CASE WHEN p_delay > '0' THEN 3 ELSE 1 END, p_order_key, p_limits, p_cost)
    RETURNING pgqueue_live.id INTO id;
    outcome := 'created';
    IF p_delay > '0' IS NOT TRUE THEN
        INSERT INTO pgqueue_note (queue_id, channel_id, lane, rank, at, id, keyed, lazy)
        VALUES (c.queue_id, c.id, v_lane, -p_priority, v_now, id, p_order_key IS NOT NULL,
            v_lane = 0 AND p_order_key IS NULL AND NOT c.ordered AND coalesce(c.lazy, false));
    END IF;
END;
$$;

-- Checks inserted messages, puts each into its lane, and appends one note for each lane.
CREATE FUNCTION pgqueue_message_arrived()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF EXISTS (SELECT FROM arrived AS a WHERE a.limits IS NOT NULL) OR EXISTS (SELECT FROM pgqueue_meter_handler) THEN
        UPDATE pgqueue_live AS m SET lane = n.lane
        FROM (
            SELECT a.id, pgqueue_lane_of(pgqueue_meters_of(a.limits, a.handler)) AS lane
            FROM arrived AS a JOIN pgqueue_channel AS c ON c.id = a.channel_id AND NOT c.ordered
        ) AS n
        WHERE m.id = n.id AND n.lane <> 0;
    END IF;
    UPDATE pgqueue_live AS m SET status = 3
    WHERE m.id = ANY (ARRAY(
        SELECT a.id FROM arrived AS a WHERE a.status = 1 AND a.dequeue_at > clock_timestamp()));
    INSERT INTO pgqueue_note (queue_id, channel_id, lane, rank, at, id, keyed)
    SELECT c.queue_id, m.channel_id, m.lane, min(-m.priority), min(m.dequeue_at), min(m.id),
        bool_or(m.order_key IS NOT NULL)
    FROM arrived AS a JOIN pgqueue_live AS m ON m.id = a.id JOIN pgqueue_channel AS c ON c.id = m.channel_id
    WHERE m.status = 1
    GROUP BY 1, 2, 3;
    RETURN NULL;
END;
$$;
CREATE TRIGGER arrived AFTER INSERT ON pgqueue_message REFERENCING NEW TABLE AS arrived
FOR EACH STATEMENT EXECUTE FUNCTION pgqueue_message_arrived();

-- Makes a meter; its level begins full.
CREATE FUNCTION pgqueue_meter_make(
    p_name text, p_shared boolean, p_max integer DEFAULT NULL, p_max_cost integer DEFAULT NULL,
    p_step interval DEFAULT NULL, p_burst integer DEFAULT 1, OUT id bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    -- What is counted by its cost, or flows by a rate, has one side: a message could not get its cost from several.
    INSERT INTO pgqueue_meter AS m (name, shared, sides, max_concurrency, max_cost, step, burst)
    VALUES (p_name, p_shared,
        CASE WHEN p_max_cost IS NULL AND p_step IS NULL THEN coalesce(least(p_max, 8), 1) ELSE 1 END, p_max,
        p_max_cost, p_step, p_burst)
    RETURNING m.id INTO id;
    INSERT INTO pgqueue_level (meter_id, side, tokens, filled_at)
    SELECT m.id, s, p_burst, clock_timestamp()
    FROM pgqueue_meter AS m, generate_series(0, 15) AS s WHERE m.id = pgqueue_meter_make.id AND s < m.sides;
END;
$$;

-- Makes a queue, with its sequences.
CREATE FUNCTION pgqueue_queue_make(
    p_name text, p_fairness text DEFAULT 'turns', p_max integer DEFAULT NULL, OUT id integer
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO pgqueue_queue AS q (name, fairness) VALUES (p_name, p_fairness) RETURNING q.id INTO id;
    EXECUTE format('CREATE SEQUENCE pgqueue_line_%s MINVALUE 0', id);
    EXECUTE format('CREATE SEQUENCE pgqueue_pass_%s MINVALUE 0', id);
    UPDATE pgqueue_queue AS q
    SET line = format('pgqueue_line_%s', q.id)::regclass, pass = format('pgqueue_pass_%s', q.id)::regclass,
        meter_id = CASE WHEN p_max IS NOT NULL OR p_fairness = 'share'
            THEN pgqueue_meter_make('queue ' || p_name, false, p_max) END
    WHERE q.id = pgqueue_queue_make.id;
    INSERT INTO pgqueue_floor (queue_id, id, ticked_at, note_xid, late_xids, lane_seq, due_from, next_xid, next_seq)
    VALUES (pgqueue_queue_make.id, 1, clock_timestamp(), '0', '{}', 0, '-infinity', '0', 0);
END;
$$;

CREATE FUNCTION pgqueue_channel_make(
    p_queue text, p_name text, p_weight integer DEFAULT 1, p_max integer DEFAULT NULL, p_step interval DEFAULT NULL,
    p_burst integer DEFAULT 1, p_ordered boolean DEFAULT false, OUT id bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    q pgqueue_queue;
BEGIN
    SELECT o.* INTO q FROM pgqueue_queue AS o WHERE o.name = p_queue;
    INSERT INTO pgqueue_channel AS c (queue_id, name, weight, ordered, meter_id)
    VALUES (q.id, p_name, p_weight, p_ordered, CASE
        WHEN p_max IS NOT NULL OR p_step IS NOT NULL OR q.fairness = 'share'
        THEN pgqueue_meter_make('channel ' || p_queue || '/' || p_name, false, p_max, NULL, p_step, p_burst) END)
    RETURNING c.id INTO id;
END;
$$;

-- Closes a meter until a time, or opens it again (NULL), and has the lanes looked at that wait for it.
CREATE FUNCTION pgqueue_meter_close(p_meter_id bigint, p_until timestamptz, p_reason text DEFAULT 'paused')
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE pgqueue_meter AS m SET closed_until = p_until, closed_for = p_reason WHERE m.id = p_meter_id;
    INSERT INTO pgqueue_note (queue_id, meter_id)
    SELECT q.id, p_meter_id FROM pgqueue_queue AS q
    WHERE EXISTS (SELECT FROM pgqueue_meter AS m WHERE m.id = p_meter_id AND m.shared)
        OR q.meter_id = p_meter_id
        OR EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.queue_id = q.id AND c.meter_id = p_meter_id);
END;
$$;
