-- Leaves the notes of a message whose lease has ended, or that has left: what it was charged to is free; p_good: for
-- good, so that its place in an ordered channel and its order key are free; else it is ready again when its status is 1.
CREATE FUNCTION pgqueue_leave(m pgqueue_live, p_charged bigint[], p_good boolean)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    c record;
BEGIN
    SELECT o.queue_id, o.ordered INTO c FROM pgqueue_channel AS o WHERE o.id = m.channel_id;
    IF p_charged IS NOT NULL THEN
        INSERT INTO pgqueue_note (queue_id, meter_id, side, freed, cost, lazy)
        SELECT c.queue_id, u / 16, u % 16, 1, coalesce(m.cost, 1), NOT EXISTS (
            SELECT FROM pgqueue_lane AS w WHERE w.meter_id = u / 16 LIMIT 1)
        FROM unnest(p_charged) AS u;
    END IF;
    IF p_good AND c.ordered THEN
        INSERT INTO pgqueue_note (queue_id, channel_id, lane, ended) VALUES (c.queue_id, m.channel_id, 0, m.id);
    ELSIF p_good AND m.order_key IS NOT NULL THEN
        INSERT INTO pgqueue_note (queue_id, channel_id, lane, ended)
        VALUES (c.queue_id, m.channel_id, pgqueue_lane_of_key(m.order_key), m.id);
    ELSIF NOT p_good AND m.status = 1 THEN
        INSERT INTO pgqueue_note (queue_id, channel_id, lane, rank, at, id, keyed)
        VALUES (c.queue_id, m.channel_id, m.lane, -m.priority, m.dequeue_at, m.id, m.order_key IS NOT NULL);
    END IF;
END;
$$;

-- Settles leased messages as done: moves them to the archive. Returns their ids; a lost lease raises PGQ02.
CREATE FUNCTION pgqueue_complete(p_ids bigint[], p_tokens uuid[], p_outcome text DEFAULT 'completed')
RETURNS SETOF bigint
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
    m pgqueue_live;
    c record;
    v_now timestamptz := clock_timestamp();
    v_count bigint;
BEGIN
    IF cardinality(p_ids) = 1 THEN
        DELETE FROM pgqueue_live AS o WHERE o.id = p_ids[1] AND o.lease_token = p_tokens[1] RETURNING o.* INTO m;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'lease lost' USING ERRCODE = 'PGQ02';
        END IF;
        SELECT q.name AS queue, o.name, o.ordered INTO c
        FROM pgqueue_channel AS o JOIN pgqueue_queue AS q ON q.id = o.queue_id WHERE o.id = m.channel_id;
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
            dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
            redriven_from, started_at, order_key, limits, cost)
        VALUES (
            m.id, c.queue, c.name, m.handler, m.payload, m.body, m.headers, m.priority, m.attempts, m.max_attempts,
            m.created_at, m.dequeue_at, m.leased_at, m.lease_token, v_now, p_outcome, NULL, m.state, m.errors,
            m.dedupe_key, m.worker, m.redriven_from, m.leased_at, m.order_key, m.limits, m.cost);
        IF m.charged IS NOT NULL OR m.order_key IS NOT NULL OR c.ordered THEN
            PERFORM pgqueue_leave(m, m.charged, true);
        END IF;
        RETURN NEXT m.id;
        RETURN;
    END IF;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM pgqueue_live AS o USING unnest(p_ids, p_tokens) AS u (id, token)
        WHERE o.id = u.id AND o.lease_token = u.token
        RETURNING o AS m
    ),
    placed AS MATERIALIZED (
        SELECT g.m, q.name AS queue, o.name AS channel, o.ordered
        FROM gone AS g JOIN pgqueue_channel AS o ON o.id = (g.m).channel_id
        JOIN pgqueue_queue AS q ON q.id = o.queue_id
    ),
    noted AS (
        SELECT pgqueue_leave(p.m, (p.m).charged, true) FROM placed AS p
        WHERE (p.m).charged IS NOT NULL OR (p.m).order_key IS NOT NULL OR p.ordered
    ),
    archived AS (
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, body, headers, priority, attempts, max_attempts, created_at,
            dequeue_at, leased_at, lease_token, archived_at, outcome, result, state, errors, dedupe_key, worker,
            redriven_from, started_at, order_key, limits, cost)
        SELECT (p.m).id, p.queue, p.channel, (p.m).handler, (p.m).payload, (p.m).body, (p.m).headers, (p.m).priority,
            (p.m).attempts, (p.m).max_attempts, (p.m).created_at, (p.m).dequeue_at, (p.m).leased_at,
            (p.m).lease_token, v_now, p_outcome, NULL, (p.m).state, (p.m).errors, (p.m).dedupe_key, (p.m).worker,
            (p.m).redriven_from, (p.m).leased_at, (p.m).order_key, (p.m).limits, (p.m).cost
        FROM placed AS p
        RETURNING id
    )
    SELECT a.id FROM archived AS a, (SELECT count(*) FROM noted) AS n;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < cardinality(p_ids) THEN
        RAISE EXCEPTION 'lease lost' USING ERRCODE = 'PGQ02';
    END IF;
END;
$$;

-- Gives leased messages back, to be served again after p_delay.
CREATE FUNCTION pgqueue_retry(p_ids bigint[], p_tokens uuid[], p_delay interval DEFAULT '0')
RETURNS SETOF bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    o pgqueue_live;
    m pgqueue_live;
    v_now timestamptz := clock_timestamp();
BEGIN
    FOR o IN
        SELECT i.* FROM unnest(p_ids, p_tokens) AS u (id, token) JOIN pgqueue_live AS i ON i.id = u.id
        WHERE i.lease_token = u.token ORDER BY i.id FOR UPDATE OF i
    LOOP
        UPDATE pgqueue_live AS x
        SET status = CASE WHEN p_delay > '0' THEN 3 ELSE 1 END,
            dequeue_at = CASE WHEN p_delay > '0' THEN v_now + p_delay ELSE x.dequeue_at END,
            last_leased_at = x.leased_at, settled_token = x.lease_token, leased_at = NULL, lease_expires_at = NULL,
            lease_token = NULL, worker = NULL, charged = NULL
        WHERE x.id = o.id RETURNING x.* INTO m;
        PERFORM pgqueue_leave(m, o.charged, false);
        RETURN NEXT m.id;
    END LOOP;
END;
$$;

-- Cancels messages that are not leased: moves them to the archive. Returns their ids.
CREATE FUNCTION pgqueue_cancel(p_ids bigint[])
RETURNS SETOF bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
AS $$
DECLARE
    m pgqueue_live;
BEGIN
    FOR m IN DELETE FROM pgqueue_live AS o WHERE o.id = ANY (p_ids) AND o.status <> 2 RETURNING o.* LOOP
        INSERT INTO pgqueue_archived_message (id, queue, channel, handler, archived_at, outcome)
        VALUES (m.id, '', '', m.handler, clock_timestamp(), 'cancelled');
        PERFORM pgqueue_leave(m, NULL, true);
        RETURN NEXT m.id;
    END LOOP;
END;
$$;
