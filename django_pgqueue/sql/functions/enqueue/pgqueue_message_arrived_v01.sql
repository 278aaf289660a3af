-- Checks inserted messages, appends one arrival row per channel for the next dequeue, and wakes the workers that sleep
-- on the queue.
-- Statement trigger, AFTER INSERT (transition table: arrived). Any INSERT enqueues: API, ORM, plain SQL, COPY. A
-- trigger cannot return a refusal, so it raises: the verbs look before they insert.
-- Locks: only channels that have a max_size, in channel order (lock order, step 1); messages that full channels drop,
--   SKIP LOCKED; outside of READ COMMITTED all its channels, FOR KEY SHARE.
-- Errors: PGQ03, PGQ04, PGQ05, PGQ06, PGQ07; 40001 outside of READ COMMITTED.
CREATE FUNCTION pgqueue_message_arrived()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_arrival record;
    v_channel record;
    v_full bigint[] := '{}';
    v_queue text;
    v_refusal jsonb;
    v_dropped bigint[];
BEGIN
    -- A snapshot of the past may show a channel that has been released and removed since: fail then, instead of losing
    -- the messages.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM pgqueue_channel AS c WHERE c.id = ANY (ARRAY(SELECT a.channel_id FROM arrived AS a)) FOR KEY SHARE;
    END IF;
    -- One ready message on a channel without max_size, the most frequent case by far, takes short statements.
    SELECT a.channel_id, -a.priority AS rank, a.dequeue_at, a.id INTO v_arrival
    FROM arrived AS a
    WHERE a.status = 1 AND a.dequeue_at <= v_now AND pgqueue_is_valid_time(a.created_at)
        AND (a.cost < 1 OR a.order_key = '') IS NOT TRUE AND pgqueue_validate(
            a.handler, a.payload, a.body, a.headers, a.priority, a.dequeue_at, NULL, a.max_attempts, a.backoff,
            a.backoff_factor, a.backoff_longest, NULL) IS NULL
        AND CASE WHEN a.cost > 1 THEN pgqueue_cost_problem(a.cost, a.channel_id, a.handler, a.limits) END IS NULL
    LIMIT 1;
    IF FOUND AND NOT EXISTS (SELECT FROM arrived AS a OFFSET 1) THEN
        SELECT c.queue,
            EXISTS (SELECT FROM pgqueue_waiter AS w WHERE w.queue = c.queue AND w.wait_until > v_now) AS waited_for,
            EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) AS events,
            -- The live row of a lane has the highest seq of its entries in the index.
            (SELECT (l.floor_rank, l.floor_at, l.floor_id) <= (v_arrival.rank, v_arrival.dequeue_at, v_arrival.id)
            FROM pgqueue_lane AS l WHERE l.channel_id = c.id ORDER BY l.seq DESC LIMIT 1) AS lazy
        INTO v_channel
        FROM pgqueue_channel AS c
        WHERE c.id = v_arrival.channel_id AND c.released_at IS NULL AND c.max_size IS NULL;
        IF FOUND THEN
            INSERT INTO pgqueue_arrival (queue, channel_id, floor_rank, floor_at, floor_id, lazy)
            VALUES (v_channel.queue, v_arrival.channel_id, v_arrival.rank, v_arrival.dequeue_at, v_arrival.id,
                coalesce(v_channel.lazy, false));
            -- The waiter was looked up above: the call of another function costs more than the look.
            IF v_channel.waited_for THEN
                PERFORM pgqueue_wake(v_channel.queue);
            END IF;
            IF v_channel.events THEN
                PERFORM pgqueue_publish('created', ARRAY[v_arrival.id]);
            END IF;
            RETURN NULL;
        END IF;
    END IF;

    SELECT min(CASE WHEN NOT pgqueue_is_valid_time(a.created_at) THEN 'created_at is outside of the years 2 to 9998'
            WHEN a.cost < 1 OR a.order_key = '' THEN pgqueue_metering_problem(NULL, a.cost, a.order_key, '', '', '')
            ELSE coalesce(pgqueue_validate(a.handler, a.payload, a.body, a.headers, a.priority, a.dequeue_at, NULL,
                a.max_attempts, a.backoff, a.backoff_factor, a.backoff_longest, NULL),
                CASE WHEN a.cost > 1 THEN pgqueue_cost_problem(a.cost, a.channel_id, a.handler, a.limits) END)
        END) AS problem, bool_or(a.status = 1 AND a.dequeue_at > v_now) AS early
    INTO v_arrival FROM arrived AS a;
    IF v_arrival.problem IS NOT NULL THEN
        RAISE EXCEPTION 'invalid message: %', v_arrival.problem USING ERRCODE = 'PGQ07';
    ELSIF v_arrival.early THEN
        -- A plain INSERT cannot know that a message for later has a status of its own.
        UPDATE pgqueue_message AS m SET status = 3
        WHERE m.id = ANY (ARRAY(SELECT a.id FROM arrived AS a WHERE a.status = 1 AND a.dequeue_at > v_now));
    END IF;
    -- Counts the messages of each channel, in channel order, appends an arrival, and wakes the workers that sleep.
    FOR v_arrival IN
        SELECT n.*, c.queue, c.released_at, c.max_size, c.full_policy
        FROM (
            -- The floor is the least of each part: at or before the first message, cheaper than a sort of a million.
            SELECT r.channel_id, count(*) AS messages, min(-r.priority) FILTER (WHERE r.ready) AS rank,
                min(r.dequeue_at) FILTER (WHERE r.ready) AS at, min(r.id) FILTER (WHERE r.ready) AS id,
                bool_or(r.waits_for IS NOT NULL) AS waits
            FROM (SELECT a.*, a.status = 1 AND a.dequeue_at <= v_now AS ready FROM arrived AS a) AS r
            GROUP BY r.channel_id
        ) AS n
        LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
        ORDER BY n.channel_id
    LOOP
        IF v_arrival.queue IS NULL THEN
            RAISE EXCEPTION 'channel % does not exist', v_arrival.channel_id
                USING ERRCODE = 'PGQ03', HINT = 'Create the channel first: pgqueue_channel_set(queue, channel).';
        ELSIF v_arrival.released_at IS NOT NULL THEN
            PERFORM pgqueue_raise(pgqueue_channel_refusal('PGQ05', v_arrival.channel_id));
        ELSIF v_arrival.max_size IS NOT NULL THEN
            v_refusal := (pgqueue_reserve(v_arrival.channel_id, v_arrival.max_size, v_arrival.messages)).refusal;
            IF v_refusal ->> 'outcome' = 'full' AND v_arrival.full_policy IN ('drop_oldest', 'replace') THEN
                v_full := v_full || v_arrival.channel_id;
            ELSE
                PERFORM pgqueue_raise(v_refusal);
            END IF;
        END IF;
        IF v_arrival.id IS NOT NULL THEN
            INSERT INTO pgqueue_arrival (queue, channel_id, floor_rank, floor_at, floor_id)
            VALUES (v_arrival.queue, v_arrival.channel_id, v_arrival.rank, v_arrival.at, v_arrival.id);
        END IF;
        IF (v_arrival.id IS NOT NULL OR v_arrival.waits) AND v_arrival.queue IS DISTINCT FROM v_queue THEN
            v_queue := v_arrival.queue;
            PERFORM pgqueue_wake(v_queue);
        END IF;
    END LOOP;
    -- Messages are locked after all counts, so that no caller waits for a count while it holds messages.
    -- The surplus of a channel with drop_oldest or replace goes to the archive as dropped; a lease is no surplus.
    FOR v_channel IN
        SELECT c.id, c.max_size, c.full_policy, n.ids, n.messages
        FROM (
            SELECT a.channel_id, coalesce(array_agg(a.id ORDER BY a.id) FILTER (WHERE a.status <> 2), '{}') AS ids,
                count(*) AS messages
            FROM arrived AS a WHERE a.channel_id = ANY (v_full) GROUP BY a.channel_id
        ) AS n
        JOIN pgqueue_channel AS c ON c.id = n.channel_id
    LOOP
        SELECT pgqueue_choose_dropped(v_channel.id, v_channel.max_size, v_channel.full_policy,
            r.room - v_channel.messages + cardinality(v_channel.ids), v_channel.ids) INTO v_dropped
        FROM pgqueue_reserve(v_channel.id, v_channel.max_size, 0) AS r;
        PERFORM pgqueue_archive(v_dropped, 'dropped') WHERE v_dropped IS NOT NULL;
        PERFORM pgqueue_raise(r.refusal)
        FROM pgqueue_reserve(v_channel.id, v_channel.max_size, v_channel.messages) AS r;
    END LOOP;
    IF EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) THEN
        PERFORM pgqueue_publish('created', ARRAY(SELECT a.id FROM arrived AS a));
    END IF;
    RETURN NULL;
END;
$$;
