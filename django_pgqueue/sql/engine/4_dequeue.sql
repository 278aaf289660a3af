-- Leases up to p_limit messages of a queue to a worker for p_lease. The attempt is counted now.
-- p_flushes: the caller commits at once, and calls pgqueue_flush before it starts a handler. Then this commit does not
--   wait for the disk, so that the line is held for an instant only.
-- One message of a channel without limits, the most frequent case by far, is taken here without any lock but its own.
-- Returns the messages in the order of service.
-- Locks: the line of the queue, tried and then awaited for 10 ms; levels and messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_dequeue(
    p_queue text DEFAULT 'default',
    p_limit integer DEFAULT 1,
    p_lease interval DEFAULT '15 seconds',
    p_worker text DEFAULT NULL,
    p_flushes boolean DEFAULT false
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    q record;
    d pgqueue_delivery;
    v_now timestamptz := clock_timestamp();
    v_served bigint;
    v_over boolean;
    v_locked boolean := false;
BEGIN
    SELECT y.id, y.line, y.pass, y.meter_id IS NULL AND y.fairness = 'turns' AS plain, f.note_xid, f.late_xids,
        f.urgent, f.due, f.at, f.pass_at, n.stands, n.served, n.pass AS pass_of, n.seq, n.channel_id, n.floor_rank, n.floor_at,
        n.floor_id, c.name, c.context,
        least(CASE WHEN n.pass = 2 THEN 1 ELSE greatest(f.pass_at % 1024, 1) END * c.weight, 1000) AS size,
        n.sides = 0 AND NOT n.keyed AND n.parked_for IS NULL AND c.meter_id IS NULL AND NOT c.ordered AS lone,
        y.fairness = 'turns' AND pgqueue_is_open(n.sides, n.parked_for, n.keyed, c.ordered) AS open
    INTO q
    FROM pgqueue_queue AS y
    CROSS JOIN LATERAL (
        SELECT o.note_xid, o.late_xids, o.lane_seq, coalesce(pg_sequence_last_value(y.line), 0) AS at,
            coalesce(pg_sequence_last_value(y.pass), 0) AS pass_at,
            (SELECT a.xid FROM pgqueue_note AS a WHERE a.queue_id = y.id AND a.lazy = false AND a.xid >= o.note_xid
                ORDER BY a.xid LIMIT 1) IS NOT NULL OR o.late_xids <> '{}' AS urgent,
            (SELECT w.parked_until FROM pgqueue_lane AS w
                WHERE w.queue_id = y.id AND w.parked_until < 'infinity' AND w.parked_until >= o.due_from
                    AND w.parked_until <= v_now
                ORDER BY w.parked_until LIMIT 1) IS NOT NULL AS due
        FROM pgqueue_floor AS o WHERE o.queue_id = y.id ORDER BY o.id DESC LIMIT 1
    ) AS f
    LEFT JOIN LATERAL (
        (SELECT w.*, 0 AS pass FROM pgqueue_lane AS w
        WHERE w.queue_id = y.id AND w.stands = 2 AND w.seq >= f.lane_seq ORDER BY w.seq LIMIT 1)
        UNION ALL
        (SELECT w.*, 1 FROM pgqueue_lane AS w
        WHERE w.queue_id = y.id AND w.stands = 1 AND w.seq >= greatest(f.at / 1024, f.lane_seq)
            AND w.seq <= f.pass_at / 1024
        ORDER BY w.seq LIMIT 1)
        UNION ALL
        (SELECT w.*, 2 FROM pgqueue_lane AS w
        WHERE w.queue_id = y.id AND w.stands = 1 AND w.seq >= f.lane_seq ORDER BY w.seq LIMIT 1)
        LIMIT 1
    ) AS n ON true
    LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
    WHERE y.name = p_queue;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_flushes THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF q.seq IS NULL AND NOT q.urgent AND NOT q.due THEN
        IF NOT pgqueue_bring_back(q.id, v_now) THEN
            RETURN;
        END IF;
    ELSIF p_limit = 1 AND q.plain AND q.urgent AND q.seq IS NULL THEN
        -- A lone message does not stand in the line.
        v_locked := pg_try_advisory_xact_lock(7210, q.id);
        IF v_locked THEN
            RETURN QUERY SELECT * FROM pgqueue_receive(q.id, q.note_xid, q.late_xids, p_lease, p_worker, v_now);
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
    ELSIF p_limit = 1 AND q.plain AND q.lone AND NOT q.urgent AND NOT q.due THEN
        IF q.stands = 2 THEN
            v_locked := pg_try_advisory_xact_lock(7210, q.id);
        ELSE
            -- The cursor moves before the lease: the next consumer looks behind this lane.
            IF q.pass_of = 2 THEN
                PERFORM setval(q.pass, (SELECT s.last_value FROM pgqueue_lane_seq AS s) * 1024 + 1);
            END IF;
            v_served := 1 + CASE WHEN q.seq = q.at / 1024 AND q.pass_of = 1 THEN q.at % 1024 ELSE 0 END;
            v_over := v_served >= q.size;
            PERFORM setval(q.line, CASE WHEN v_over THEN (q.seq + 1) * 1024 ELSE q.seq * 1024 + v_served END);
        END IF;
        IF q.stands = 1 OR v_locked THEN
            UPDATE pgqueue_live AS m
            SET status = 2, attempts = m.attempts + 1, leased_at = v_now, lease_expires_at = v_now + p_lease,
                lease_token = gen_random_uuid(), worker = p_worker
            WHERE m.id = (
                SELECT o.id FROM pgqueue_live AS o
                WHERE o.channel_id = q.channel_id AND o.lane = 0 AND o.status = 1 AND o.order_key IS NULL
                    AND (-o.priority, o.dequeue_at, o.id) >= (q.floor_rank, q.floor_at, q.floor_id)
                ORDER BY -o.priority, o.dequeue_at, o.id LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING m.id, q.name, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
                m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at, nullif(q.context, '{}'),
                m.last_leased_at INTO d;
            IF FOUND THEN
                RETURN NEXT d;
                IF q.stands = 2 THEN
                    PERFORM pgqueue_touch_lane(q.channel_id, q.served + 1 >= q.size, 1);
                ELSIF random() < 0.0625 THEN
                    IF pg_try_advisory_xact_lock(7210, q.id) THEN
                        PERFORM pgqueue_touch_lane(q.channel_id, v_over, 0);
                        PERFORM pgqueue_fold(q.id, true, q.note_xid, q.late_xids, v_now);
                    END IF;
                END IF;
                RETURN;
            END IF;
        END IF;
    END IF;
    -- A lane that is open needs no line; by chance, its floor is raised and notes are folded.
    IF p_limit = 1 AND NOT v_locked AND q.open AND q.stands = 1 AND NOT q.urgent AND NOT q.due AND random() > 0.0625 THEN
        RETURN QUERY SELECT * FROM pgqueue_serve(q.id, p_limit, p_lease, p_worker, false, false);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF NOT v_locked THEN
        v_locked := pg_try_advisory_xact_lock(7210, q.id);
    END IF;
    IF NOT v_locked AND q.open THEN
        RETURN QUERY SELECT * FROM pgqueue_serve(q.id, p_limit, p_lease, p_worker, false, false);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    v_locked := v_locked OR pgqueue_await_line(q.id);
    RETURN QUERY SELECT * FROM pgqueue_serve(q.id, p_limit, p_lease, p_worker, v_locked, NOT v_locked);
END;
$$;

-- Returns whether the messages of a head may be served without the line: those of one lane, in any order of settlement.
CREATE FUNCTION pgqueue_is_open(p_sides integer, p_parked_for text, p_keyed boolean, p_ordered boolean)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
AS $$
SELECT NOT p_keyed AND NOT p_ordered AND (p_sides = 0 AND p_parked_for IS NULL OR p_sides = 1 AND p_parked_for = 'empty');
$$;

-- Leases the message of the only note of a queue whose line is empty, if its channel has no limits: it needs no lane.
CREATE FUNCTION pgqueue_receive(
    p_queue_id integer, p_from xid8, p_late xid8[], p_lease interval, p_worker text, p_now timestamptz
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    n record;
    v_found boolean;
BEGIN
    SELECT min(i.id) AS id, min(i.channel_id) AS channel_id, min(i.place) AS place, min(i.rank) AS rank,
        min(i.at) AS at
    INTO n
    FROM (
        SELECT o.ctid AS place, o.id, o.rank, o.at, o.keyed IS NOT TRUE AND o.lane = 0 AS plain, o.channel_id FROM pgqueue_note AS o
        WHERE o.queue_id = p_queue_id AND o.lazy = false AND o.xid >= p_from ORDER BY o.xid LIMIT 2
    ) AS i
    LEFT JOIN pgqueue_channel AS c ON c.id = i.channel_id AND c.meter_id IS NULL AND NOT c.ordered AND i.plain
    HAVING count(*) = 1 AND count(c.id) = 1 AND p_late = '{}' AND NOT EXISTS (
        SELECT FROM pgqueue_note AS o WHERE o.queue_id = p_queue_id AND o.lazy = true AND o.xid >= p_from LIMIT 1);
    IF FOUND THEN
        RETURN QUERY SELECT * FROM pgqueue_lease(
            ARRAY(SELECT m.id FROM pgqueue_live AS m WHERE m.id = n.id AND m.status = 1 FOR UPDATE SKIP LOCKED),
            NULL, p_now, p_lease, p_worker);
        -- A note may tell of many messages; then it stays, and the next call folds it.
        v_found := FOUND;
        DELETE FROM pgqueue_note AS o
        WHERE v_found AND o.ctid = n.place AND NOT EXISTS (
            SELECT FROM pgqueue_live AS m
            WHERE m.channel_id = n.channel_id AND m.lane = 0 AND m.status = 1
                AND (-m.priority, m.dequeue_at, m.id) >= (n.rank, n.at, n.id) LIMIT 1);
    END IF;
END;
$$;

-- Waits up to 10 ms for the line of a queue. Returns whether the caller has it.
CREATE FUNCTION pgqueue_await_line(p_queue_id integer)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', '10ms', true);
    PERFORM pg_advisory_xact_lock(7210, p_queue_id);
    PERFORM set_config('lock_timeout', v_timeout, true);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END;
$$;

-- Waits until all commits of this session are on disk: a commit of its own, which waits for the disk.
CREATE FUNCTION pgqueue_flush()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_current_xact_id();
END;
$$;

-- Leases messages of one lane, charged to p_meters.
-- Returns them in the order of p_ids.
CREATE FUNCTION pgqueue_lease(
    p_ids bigint[], p_charged bigint[], p_now timestamptz, p_lease interval, p_worker text
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN QUERY
    WITH m AS (
        UPDATE pgqueue_live AS o
        SET status = 2, attempts = o.attempts + 1, leased_at = p_now, lease_expires_at = p_now + p_lease,
            lease_token = gen_random_uuid(), worker = p_worker, charged = p_charged
        WHERE o.id = ANY (p_ids)
        RETURNING o.id, o.channel_id, o.handler, o.payload, o.body, o.headers, o.priority, o.attempts, o.max_attempts,
            o.lease_token, o.lease_expires_at, o.state, o.created_at, o.dequeue_at, o.last_leased_at
    )
    SELECT m.id, c.name::text, m.handler::text, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
        m.lease_token, m.lease_expires_at, m.state, m.created_at, m.dequeue_at, nullif(c.context, '{}'),
        m.last_leased_at
    FROM m JOIN pgqueue_channel AS c ON c.id = m.channel_id
    ORDER BY array_position(p_ids, m.id);
END;
$$;

-- Takes and leases up to p_limit messages of a queue: lane after lane, fresh ones first, each for its turn.
-- p_locked: the caller has the line. Without it, no lane is written, and only open lanes are served. The first other one
-- ends the call, so that it keeps its turn; with p_skips it is passed.
-- The cursor stays at a lane until it has had its turn, whatever the sizes of calls: a turn is `times` its weight, and
-- `times` holds for a pass, so that calls for many visit few lanes. A pass goes from the first lane to the last one of
-- its start; lanes that come to the tail meanwhile wait for the next.
CREATE FUNCTION pgqueue_serve(
    p_queue_id integer, p_limit integer, p_lease interval, p_worker text, p_locked boolean, p_skips boolean
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    q record;
    h record;
    t record;
    r record;
    v_now timestamptz := clock_timestamp();
    v_left integer := p_limit;
    v_seq bigint;
    v_served integer;
    v_pass bigint;
    v_times integer;
    v_old bigint;
    v_size integer;
    v_count integer;
    v_wraps integer := 0;
    v_alone boolean := false;
    v_stands smallint;
    v_from bigint;
    v_ids bigint[];
    v_moved bigint[];
    v_seqs bigint[];
    v_next bigint[];
    v_folded boolean := false;
    v_skipped boolean := false;
    v_over boolean;
    v_turn record;
BEGIN
    SELECT y.id, y.meter_id, y.fairness, y.max_share, y.line, y.pass, f.note_xid, f.late_xids, f.lane_seq, f.due_from,
        coalesce(pg_sequence_last_value(y.line), 0) AS at, coalesce(pg_sequence_last_value(y.pass), 0) AS pass_at
    INTO q
    FROM pgqueue_queue AS y
    CROSS JOIN LATERAL (SELECT o.* FROM pgqueue_floor AS o WHERE o.queue_id = y.id ORDER BY o.id DESC LIMIT 1) AS f
    WHERE y.id = p_queue_id;
    v_old := q.at;
    v_seq := greatest(q.at / 1024, q.lane_seq);
    v_served := CASE WHEN v_seq = q.at / 1024 THEN q.at % 1024 ELSE 0 END;
    v_pass := q.pass_at / 1024;
    v_times := greatest(q.pass_at % 1024, 1);
    IF p_locked THEN
        PERFORM pgqueue_fold(q.id, false, q.note_xid, q.late_xids, v_now);
        PERFORM pgqueue_fold_due(q.id, q.due_from, v_now);
    END IF;
    IF q.fairness = 'share' THEN
        IF NOT p_locked THEN
            RETURN;
        END IF;
        -- A share needs the levels of now.
        v_folded := true;
        PERFORM pgqueue_fold(q.id, true, q.note_xid, '{}', v_now);
    END IF;
    IF q.meter_id IS NOT NULL AND NOT (pgqueue_has_room(q.meter_id, 1, v_now)).room THEN
        v_folded := true;
        PERFORM pgqueue_fold(q.id, true, q.note_xid, '{}', v_now) WHERE p_locked;
        IF NOT (pgqueue_has_room(q.meter_id, 1, v_now)).room THEN
            RETURN;
        END IF;
    END IF;
    IF q.fairness = 'share' THEN
        RETURN QUERY SELECT * FROM pgqueue_serve_by_share(
            q.id, q.meter_id, q.max_share, v_left, p_lease, p_worker, v_now);
        RETURN;
    END IF;

    FOR v_round IN 1..1000 + p_limit LOOP
        EXIT WHEN v_left <= 0;
        IF v_seq > v_pass THEN
            v_wraps := v_wraps + 1;
            EXIT WHEN v_wraps > 2;
            IF v_wraps = 2 AND p_locked AND NOT v_folded THEN
                v_folded := true;
                PERFORM pgqueue_fold(q.id, true, q.note_xid, '{}', v_now);
            END IF;
            v_seq := q.lane_seq;
            v_served := 0;
            v_pass := (SELECT s.last_value FROM pgqueue_lane_seq AS s);
            v_times := 1;
            IF v_left > 1 THEN
                SELECT least(ceil(v_left::double precision / sum(s.weight)), 1000) INTO v_times
                FROM (
                    SELECT c.weight FROM pgqueue_lane AS w JOIN pgqueue_channel AS c ON c.id = w.channel_id
                    WHERE w.queue_id = q.id AND w.stands = 1 AND w.seq >= q.lane_seq ORDER BY w.seq LIMIT 16
                ) AS s;
                v_times := coalesce(v_times, 1);
            END IF;
            PERFORM setval(q.pass, v_pass * 1024 + v_times);
        END IF;

        -- Up to 16 lanes without limits at once, if many messages are wanted: fresh ones, or else those at the cursor.
        IF v_left > 1 AND NOT v_alone AND q.meter_id IS NULL THEN
            v_stands := CASE WHEN p_locked AND EXISTS (
                SELECT FROM pgqueue_lane AS w WHERE w.queue_id = q.id AND w.stands = 2 AND w.seq >= q.lane_seq)
                THEN 2 ELSE 1 END;
            v_from := CASE WHEN v_stands = 2 THEN q.lane_seq ELSE v_seq END;
            v_ids := '{}';
            v_moved := '{}';
            v_seqs := '{}';
            v_next := '{}';
            v_count := 0;
            FOR t IN
                WITH line AS MATERIALIZED (
                    SELECT w.channel_id, w.seq, w.floor_rank, w.floor_at, w.floor_id,
                        greatest(least(v_times * c.weight, 1000) - CASE
                            WHEN v_stands = 2 THEN w.served WHEN w.seq = v_seq THEN v_served ELSE 0 END, 1) AS size,
                        w.sides > 0 OR w.keyed OR w.parked_for IS NOT NULL OR c.ordered OR c.meter_id IS NOT NULL
                            AS special
                    FROM pgqueue_lane AS w JOIN pgqueue_channel AS c ON c.id = w.channel_id
                    WHERE w.queue_id = q.id AND w.stands = v_stands AND w.seq >= v_from
                        AND (v_stands = 2 OR w.seq <= v_pass)
                    ORDER BY w.seq LIMIT 16
                ),
                turn AS (
                    SELECT y.*, bool_or(y.special) OVER (ORDER BY y.seq) AS stop,
                        v_left - (sum(y.size) OVER (ORDER BY y.seq) - y.size) AS rest
                    FROM line AS y
                )
                SELECT z.channel_id, z.seq, z.size, least(z.size, z.rest)::integer AS quota, s.*
                FROM turn AS z
                CROSS JOIN LATERAL (
                    SELECT coalesce(array_agg(o.id), '{}') AS ids, count(*)::integer AS n
                    FROM (
                        SELECT m.id FROM pgqueue_live AS m
                        WHERE m.channel_id = z.channel_id AND m.lane = 0 AND m.status = 1 AND m.order_key IS NULL
                            AND (-m.priority, m.dequeue_at, m.id) >= (z.floor_rank, z.floor_at, z.floor_id)
                        ORDER BY -m.priority, m.dequeue_at, m.id LIMIT least(z.size, z.rest) + 1 FOR UPDATE SKIP LOCKED
                    ) AS o
                ) AS s
                WHERE z.rest > 0 AND NOT z.stop
                ORDER BY z.seq
            LOOP
                v_count := v_count + 1;
                IF t.n > t.quota THEN
                    v_ids := v_ids || t.ids[1:t.quota];
                    v_left := v_left - t.quota;
                    IF t.quota < t.size AND v_stands = 2 THEN
                        PERFORM pgqueue_touch_lane(t.channel_id, false, t.quota);
                        EXIT;
                    ELSIF t.quota < t.size THEN
                        v_served := t.quota + CASE WHEN v_seq = t.seq THEN v_served ELSE 0 END;
                        v_seq := t.seq;
                        EXIT;
                    END IF;
                    v_moved := v_moved || t.channel_id;
                    v_seqs := v_seqs || t.seq;
                    v_next := v_next || t.ids[t.n];
                ELSE
                    v_ids := v_ids || t.ids;
                    v_left := v_left - t.n;
                    IF p_locked THEN
                        PERFORM pgqueue_leave_lane(t.channel_id, t.seq, t.ids);
                    END IF;
                END IF;
                IF v_stands = 1 THEN
                    v_seq := t.seq + 1;
                    v_served := 0;
                END IF;
            END LOOP;
            IF p_locked AND v_moved <> '{}' THEN
                -- The lanes whose turn is over go to the tail, with the key of their next message as the floor.
                UPDATE pgqueue_lane AS w
                SET seq = nextval('pgqueue_lane_seq'), stands = 1, served = 0, floor_rank = -m.priority, floor_at = m.dequeue_at,
                    floor_id = m.id
                FROM unnest(v_moved, v_seqs, v_next) AS u (channel_id, seq, id) JOIN pgqueue_live AS m ON m.id = u.id
                WHERE w.channel_id = u.channel_id AND w.lane = 0 AND w.seq = u.seq;
            END IF;
            IF v_ids <> '{}' THEN
                RETURN QUERY SELECT * FROM pgqueue_lease(v_ids, NULL, v_now, p_lease, p_worker);
            END IF;
            v_alone := v_count = 0;
            CONTINUE WHEN NOT v_alone;
        END IF;

        SELECT w.* INTO h
        FROM (
            (SELECT w.* FROM pgqueue_lane AS w
            WHERE w.queue_id = q.id AND w.stands = 2 AND w.seq >= q.lane_seq AND p_locked ORDER BY w.seq LIMIT 1)
            UNION ALL
            (SELECT w.* FROM pgqueue_lane AS w
            WHERE w.queue_id = q.id AND w.stands = 1 AND w.seq >= v_seq AND w.seq <= v_pass ORDER BY w.seq LIMIT 1)
            LIMIT 1
        ) AS w;
        IF NOT FOUND THEN
            v_seq := v_pass + 1;
            CONTINUE;
        END IF;
        IF h.stands = 1 AND h.seq <> v_seq THEN
            v_seq := h.seq;
            v_served := 0;
        END IF;
        v_alone := false;
        SELECT greatest(least(v_times * c.weight, 1000) - CASE WHEN h.stands = 1 THEN v_served ELSE h.served END, 1) INTO v_size
        FROM pgqueue_channel AS c WHERE c.id = h.channel_id;
        v_turn := pgqueue_take_turn(
            h.channel_id, h.seq, least(v_left, v_size), q.meter_id, v_now, p_locked, v_folded,
            NOT p_locked AND v_round = 1);
        IF NOT p_locked THEN
            EXIT WHEN v_turn.full AND NOT p_skips;
            v_skipped := v_skipped OR v_turn.full;
        ELSIF v_turn.full AND NOT v_folded THEN
            -- What has ended meanwhile may have made room.
            v_folded := true;
            PERFORM pgqueue_fold(q.id, true, q.note_xid, '{}', v_now);
        ELSIF v_turn.full AND q.meter_id IS NOT NULL THEN
            EXIT WHEN NOT (pgqueue_has_room(q.meter_id, 1, v_now)).room;
        END IF;
        v_ids := v_turn.ids;
        v_count := coalesce(cardinality(v_ids), 0);
        v_left := v_left - v_count;
        IF v_count > 0 THEN
            RETURN QUERY SELECT * FROM pgqueue_lease(v_ids, v_turn.sides, v_now, p_lease, p_worker);
            IF h.stands = 1 THEN
                v_served := v_served + v_count;
            END IF;
        END IF;
        -- The turn of the channel is over when it has had its part, or has nothing that may run.
        v_over := v_count >= v_size OR v_count = 0 AND NOT v_turn.again;
        IF v_over AND h.stands = 1 THEN
            v_seq := h.seq + 1;
            v_served := 0;
        END IF;
        IF p_locked AND (h.stands = 2 AND (v_over OR v_count > 0) OR v_over AND random() < 0.0625 * v_count) THEN
            PERFORM pgqueue_touch_lane(h.channel_id, v_over, v_count);
        END IF;
    END LOOP;
    IF v_seq * 1024 + v_served <> v_old AND NOT v_skipped THEN
        PERFORM setval(q.line, v_seq * 1024 + v_served);
    END IF;
    IF p_skips AND v_left = p_limit THEN
        -- The notes stay for the holder of the line; their messages need not wait for it.
        RETURN QUERY SELECT * FROM pgqueue_lease(
            pgqueue_take_noted(q.id, q.note_xid, p_limit), NULL, v_now, p_lease, p_worker);
    END IF;
    IF p_locked AND NOT v_folded AND random() < 0.125 * p_limit THEN
        PERFORM pgqueue_fold(q.id, true, q.note_xid, '{}', v_now);
    END IF;
END;
$$;

-- Takes up to p_quota messages of the channel whose head stands at p_seq: of its own lane, or of the open lane beside it
-- that has the most urgent message. Parks a lane that has none, or none that may go, with the reason.
-- Without the line (p_locked), it parks nothing. p_patient: see pgqueue_claim.
-- Returns ids: locked; sides: of the meters that they are charged to; again: nothing was taken, but there may be more to
-- look at; full: a meter had no room, or without the line, the lane is not open.
CREATE FUNCTION pgqueue_take_turn(
    p_channel_id bigint, p_seq bigint, p_quota integer, p_queue_meter bigint, p_now timestamptz, p_locked boolean,
    p_folded boolean, p_patient boolean,
    OUT ids bigint[], OUT sides bigint[], OUT again boolean, OUT "full" boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    c record;
    h pgqueue_lane;
    l pgqueue_lane;
    s pgqueue_lane;
    m record;
    r record;
    x bigint;
    meters bigint[];
    v_closed bigint;
    v_cost bigint;
    v_most integer := p_quota;
BEGIN
    ids := '{}';
    again := false;
    "full" := false;
    SELECT o.* INTO h FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.lane = 0 AND o.seq = p_seq;
    SELECT o.ordered, o.meter_id INTO c FROM pgqueue_channel AS o WHERE o.id = p_channel_id;
    IF NOT p_locked AND pgqueue_is_open(h.sides, h.parked_for, h.keyed, c.ordered) IS NOT TRUE THEN
        "full" := h.seq IS NOT NULL;
        RETURN;
    END IF;
    l := h;
    IF h.sides > 0 THEN
        SELECT o.* INTO s FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.stands = 3
        ORDER BY o.floor_rank, o.floor_at, o.floor_id LIMIT 1;
        IF h.parked_for IS NOT NULL
            OR (s.floor_rank, s.floor_at, s.floor_id) < (h.floor_rank, h.floor_at, h.floor_id) THEN
            l := s;
        END IF;
        IF NOT p_locked AND l.order_key IS NOT NULL THEN
            "full" := true;
            RETURN;
        END IF;
    END IF;

    -- The first message of the lane.
    IF l.order_key IS NOT NULL THEN
        SELECT o.id, o.order_key, o.attempts, o.limits, o.cost, o.handler, coalesce(o.order_place, o.id) AS place INTO m
        FROM pgqueue_live AS o
        WHERE o.channel_id = p_channel_id AND o.order_key = l.order_key AND o.status = 1 AND o.lane = l.lane
        ORDER BY (o.attempts = 0), coalesce(o.order_place, o.id) LIMIT 1 FOR UPDATE SKIP LOCKED;
    ELSIF l.current_id IS NOT NULL THEN
        SELECT o.id, o.order_key, o.attempts, o.limits, o.cost, o.handler, o.id AS place INTO m
        FROM pgqueue_live AS o WHERE o.id = l.current_id AND o.status = 1 FOR UPDATE SKIP LOCKED;
    ELSE
        SELECT o.id, o.order_key, o.attempts, o.limits, o.cost, o.handler, coalesce(o.order_place, o.id) AS place INTO m
        FROM pgqueue_live AS o
        WHERE o.channel_id = p_channel_id AND o.lane = l.lane AND o.status = 1
            AND (-o.priority, o.dequeue_at, o.id) >= (l.floor_rank, l.floor_at, l.floor_id)
        ORDER BY -o.priority, o.dequeue_at, o.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    -- What it is charged to: in an ordered channel each message has limits of its own.
    meters := CASE WHEN c.ordered OR l.order_key IS NOT NULL THEN pgqueue_meters_of(m.limits, m.handler)
        ELSE l.limits END;
    IF c.meter_id IS NOT NULL THEN
        meters := array_append(meters, c.meter_id);
    END IF;
    IF p_queue_meter IS NOT NULL THEN
        meters := array_append(meters, p_queue_meter);
    END IF;

    IF m.id IS NULL AND NOT p_locked THEN
        RETURN;
    ELSIF m.id IS NULL THEN
        -- A look without locks decides: a message that another transaction holds keeps the lane open.
        IF l.current_id IS NOT NULL THEN
            again := true;
            IF EXISTS (SELECT FROM pgqueue_live AS o WHERE o.id = l.current_id) THEN
                PERFORM pgqueue_park_lane(l, 'order', NULL, NULL, 'infinity', l.current_id);
            ELSE
                UPDATE pgqueue_lane AS o SET current_id = NULL
                WHERE o.channel_id = p_channel_id AND o.lane = l.lane AND o.seq = l.seq;
            END IF;
        ELSIF NOT EXISTS (
            SELECT FROM pgqueue_live AS o
            WHERE o.channel_id = p_channel_id AND o.lane = l.lane AND o.status = 1
                AND (l.order_key IS NOT NULL
                    OR (-o.priority, o.dequeue_at, o.id) >= (l.floor_rank, l.floor_at, l.floor_id))
            LIMIT 1) THEN
            again := true;
            PERFORM pgqueue_park_lane(l, 'empty', NULL, NULL, 'infinity', NULL);
        END IF;
    ELSIF m.order_key IS NOT NULL AND m.attempts = 0 AND NOT c.ordered
        AND pgqueue_key_is_held(p_channel_id, m.order_key, m.id, m.place) THEN
        again := true;
        IF l.order_key IS NOT NULL THEN
            PERFORM pgqueue_park_lane(l, 'key', NULL, NULL, 'infinity', NULL);
        ELSE
            -- It moves to the lane of its key, and blocks nobody here.
            x := pgqueue_lane_of_key(m.order_key);
            UPDATE pgqueue_live AS o SET lane = x WHERE o.id = m.id;
            INSERT INTO pgqueue_lane (seq, channel_id, lane, queue_id, order_key, keyed, parked_for, parked_until)
            SELECT nextval('pgqueue_lane_seq'), p_channel_id, x, l.queue_id, m.order_key, true, 'key', 'infinity'
            WHERE NOT EXISTS (SELECT FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.lane = x);
        END IF;
        RETURN;
    ELSE
        r := pgqueue_claim(meters, coalesce(m.cost, 1), p_patient, p_now);
        sides := nullif(r.sides, '{}');
        v_most := least(v_most, r.slots);
        v_closed := r.closed;
        IF v_closed IS NOT NULL THEN
            "full" := r.reason <> 'held';
            again := "full" AND p_locked;
            IF p_folded AND "full" AND p_locked AND v_closed IS DISTINCT FROM p_queue_meter THEN
                PERFORM pgqueue_park_lane(l, r.reason, v_closed, coalesce(m.cost, 1), r.until, l.current_id);
            END IF;
        ELSIF c.ordered OR l.order_key IS NOT NULL OR l.keyed OR v_most = 1 THEN
            ids := ARRAY[m.id];
            v_cost := coalesce(m.cost, 1);
        ELSE
            SELECT array_agg(o.id), sum(o.cost) INTO ids, v_cost
            FROM (
                SELECT n.id, n.cost, sum(n.cost) OVER (ORDER BY n.rank, n.at, n.id) AS total FROM (
                    SELECT i.id, coalesce(i.cost, 1) AS cost, -i.priority AS rank, i.dequeue_at AS at
                    FROM pgqueue_live AS i
                    WHERE i.channel_id = p_channel_id AND i.lane = l.lane AND i.status = 1 AND i.order_key IS NULL
                        AND (-i.priority, i.dequeue_at, i.id) >= (l.floor_rank, l.floor_at, l.floor_id)
                    ORDER BY -i.priority, i.dequeue_at, i.id LIMIT v_most FOR UPDATE SKIP LOCKED
                ) AS n
            ) AS o
            WHERE o.total <= r.units OR o.id = m.id;
        END IF;
    END IF;

    IF ids <> '{}' THEN
        IF sides IS NOT NULL THEN
            PERFORM pgqueue_charge(sides, cardinality(ids), v_cost, v_cost, p_now);
        END IF;
        IF NOT p_locked THEN
            RETURN;
        END IF;
        IF c.ordered THEN
            PERFORM pgqueue_park_lane(l, 'order', NULL, NULL, 'infinity', ids[1]);
        ELSIF l.order_key IS NOT NULL THEN
            PERFORM pgqueue_park_lane(l, 'key', NULL, NULL, 'infinity', NULL);
        ELSIF h.sides > 0 THEN
            -- Which lane comes next goes by their floors.
            PERFORM pgqueue_raise_floor(l, ids);
        END IF;
    END IF;
    -- Whoever takes no place, or leaves some, wakes the next that waits for it.
    FOREACH x IN ARRAY coalesce(array_remove(meters, p_queue_meter), '{}') LOOP
        CONTINUE WHEN x = v_closed OR NOT p_folded AND "full" OR NOT p_locked;
        PERFORM pgqueue_wake(l.queue_id, x, p_now)
        WHERE EXISTS (SELECT FROM pgqueue_lane AS w WHERE w.meter_id = x AND w.queue_id = l.queue_id);
    END LOOP;
END;
$$;

-- Writes the floor of an open lane, whose messages p_ids are about to be leased: the key of its next message.
CREATE FUNCTION pgqueue_raise_floor(l pgqueue_lane, p_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    n record;
BEGIN
    SELECT -m.priority AS rank, m.dequeue_at AS at, m.id INTO n FROM pgqueue_live AS m
    WHERE m.channel_id = l.channel_id AND m.lane = l.lane AND m.status = 1 AND m.id <> ALL (p_ids)
        AND (-m.priority, m.dequeue_at, m.id) >= (l.floor_rank, l.floor_at, l.floor_id)
    ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1;
    IF NOT FOUND THEN
        n := ROW(32767, 'infinity'::timestamptz, 0::bigint);
        PERFORM pgqueue_park_lane(l, 'empty', NULL, NULL, 'infinity', NULL);
        RETURN;
    END IF;
    UPDATE pgqueue_lane AS o SET floor_rank = n.rank, floor_at = n.at, floor_id = n.id
    WHERE o.channel_id = l.channel_id AND o.lane = l.lane AND o.seq = l.seq;
END;
$$;

-- Parks the own lane of a channel at p_seq, of which p_ids were taken, if it has no other ready message; else moves it to
-- the tail.
CREATE FUNCTION pgqueue_leave_lane(p_channel_id bigint, p_seq bigint, p_ids bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    l pgqueue_lane;
BEGIN
    SELECT o.* INTO l FROM pgqueue_lane AS o WHERE o.channel_id = p_channel_id AND o.lane = 0 AND o.seq = p_seq;
    IF NOT EXISTS (
        SELECT FROM pgqueue_live AS m
        WHERE m.channel_id = p_channel_id AND m.lane = 0 AND m.status = 1 AND m.id <> ALL (p_ids)
            AND (-m.priority, m.dequeue_at, m.id) >= (l.floor_rank, l.floor_at, l.floor_id)
        LIMIT 1) THEN
        PERFORM pgqueue_park_lane(l, 'empty', NULL, NULL, 'infinity', NULL);
    ELSE
        PERFORM pgqueue_touch_lane(p_channel_id, true, 0);
    END IF;
END;
$$;

-- Looks again at the lanes whose time has come.
CREATE FUNCTION pgqueue_fold_due(p_queue_id integer, p_from timestamptz, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    l record;
BEGIN
    FOR l IN
        SELECT w.channel_id, w.lane, w.meter_id FROM pgqueue_lane AS w
        WHERE w.queue_id = p_queue_id AND w.parked_until < 'infinity' AND w.parked_until >= p_from
            AND w.parked_until <= p_now
        ORDER BY w.parked_until LIMIT 100
    LOOP
        IF l.meter_id IS NULL THEN
            PERFORM pgqueue_open_lane(l.channel_id, l.lane);
        ELSE
            PERFORM pgqueue_wake(p_queue_id, l.meter_id, p_now);
        END IF;
    END LOOP;
END;
$$;

-- Takes messages without limits that only notes tell of, while another call has the line. Returns ids: locked.
CREATE FUNCTION pgqueue_take_noted(p_queue_id integer, p_from xid8, p_limit integer)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN ARRAY(
        SELECT t.id
        FROM (
            SELECT DISTINCT ON (n.channel_id) n.channel_id, n.rank, n.at, n.id
            FROM (
                SELECT o.channel_id, o.lane, o.rank, o.at, o.id, o.keyed FROM pgqueue_note AS o
                WHERE o.queue_id = p_queue_id AND o.lazy = false AND o.xid >= p_from ORDER BY o.xid LIMIT 200
            ) AS n
            JOIN pgqueue_channel AS c ON c.id = n.channel_id
            WHERE n.lane = 0 AND n.id IS NOT NULL AND n.keyed IS NOT TRUE AND c.meter_id IS NULL AND NOT c.ordered
            ORDER BY n.channel_id, n.rank, n.at, n.id
        ) AS f
        CROSS JOIN LATERAL (
            SELECT m.id FROM pgqueue_live AS m
            WHERE m.channel_id = f.channel_id AND m.lane = 0 AND m.status = 1 AND m.order_key IS NULL
                AND (-m.priority, m.dequeue_at, m.id) >= (f.rank, f.at, f.id)
            ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS t
        LIMIT p_limit);
END;
$$;

-- Serves a queue by shares: each message goes to the channel that holds the fewest leases for its weight, among those
-- that stand first; max_share bounds what one of them may hold of the slots, those that are leased and those wanted.
CREATE FUNCTION pgqueue_serve_by_share(
    p_queue_id integer, p_meter_id bigint, p_max_share double precision, p_left integer, p_lease interval,
    p_worker text, p_now timestamptz
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
AS $$
DECLARE
    h record;
    v_turn record;
    v_slots integer;
    v_passed bigint[] := '{}';
BEGIN
    FOR v_round IN 1..1000 + p_left LOOP
        EXIT WHEN p_left <= 0;
        SELECT sum(l.running) + p_left INTO v_slots FROM pgqueue_level AS l WHERE l.meter_id = p_meter_id;
        -- A channel that stands behind so many others, each with a lease less than it may have, cannot be next.
        SELECT w.channel_id, w.seq INTO h
        FROM (
            SELECT o.channel_id, o.seq, c.weight, c.meter_id FROM pgqueue_lane AS o
            JOIN pgqueue_channel AS c ON c.id = o.channel_id
            WHERE o.queue_id = p_queue_id AND o.stands IN (1, 2) AND o.channel_id <> ALL (v_passed)
            ORDER BY o.seq LIMIT least(greatest(v_slots, 16), 256)
        ) AS w
        CROSS JOIN LATERAL (
            SELECT sum(l.running) AS running FROM pgqueue_level AS l WHERE l.meter_id = w.meter_id
        ) AS y
        WHERE p_max_share IS NULL OR y.running < greatest(1, floor(p_max_share * v_slots))
        ORDER BY (y.running + 1) / w.weight::double precision, w.seq LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_turn := pgqueue_take_turn(h.channel_id, h.seq, 1, p_meter_id, p_now, true, true, false);
        IF v_turn.ids <> '{}' THEN
            p_left := p_left - 1;
            RETURN QUERY SELECT * FROM pgqueue_lease(v_turn.ids, v_turn.sides, p_now, p_lease, p_worker);
            PERFORM pgqueue_touch_lane(h.channel_id, true, 0);
        ELSIF NOT v_turn.again THEN
            v_passed := v_passed || h.channel_id;
        END IF;
    END LOOP;
END;
$$;
