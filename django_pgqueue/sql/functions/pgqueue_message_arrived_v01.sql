-- Checks inserted messages, appends one arrival row per channel for the next dequeue, and wakes the workers that sleep
-- on the queue.
-- Caller: trigger of pgqueue_message.
-- Statement trigger, AFTER INSERT (transition table: arrived). Any INSERT enqueues: API, ORM, plain SQL, COPY. A
-- trigger cannot return a refusal, so it raises: the verbs look before they insert.
-- Locks: only channels that have a max_size, in channel order (lock order, step 1); messages that full channels drop,
--   SKIP LOCKED.
-- Errors: PGQ03, PGQ04, PGQ05, PGQ06, PGQ07.
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
    v_queue text;
    v_events boolean;
    v_news record;
    v_channel record;
    v_several boolean;
    v_room record;
    v_full bigint[] := '{}';
BEGIN
    -- A snapshot of the past may show a channel that has been released and removed since: fail then, instead of losing
    -- the messages.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM pgqueue_channel AS c WHERE c.id = ANY (ARRAY(SELECT a.channel_id FROM arrived AS a)) FOR KEY SHARE;
    END IF;
    -- One ready message on a channel without max_size, the most frequent case by far, takes short statements.
    PERFORM FROM arrived AS a OFFSET 1 LIMIT 1;
    v_several := FOUND;
    SELECT a.channel_id, -a.priority AS rank, a.dequeue_at, a.id INTO v_news
    FROM arrived AS a
    WHERE a.status = 1 AND a.dequeue_at <= v_now AND pgqueue_is_valid_time(a.created_at) AND pgqueue_validate(
            a.handler, a.payload, a.body, a.headers, a.priority, a.dequeue_at, NULL, a.max_attempts, a.backoff,
            a.backoff_factor, a.backoff_longest, NULL) IS NULL
    LIMIT 1;
    IF FOUND AND NOT v_several THEN
        SELECT c.queue,
            EXISTS (SELECT FROM pgqueue_waiter AS w WHERE w.queue = c.queue AND w.wait_until > v_now) AS waited_for,
            EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) AS events,
            -- The lane that lives is the newest entry of its index.
            (
                SELECT (l.floor_rank, l.floor_at, l.floor_id) <= (v_news.rank, v_news.dequeue_at, v_news.id)
                FROM pgqueue_lane AS l
                WHERE l.channel_id = c.id ORDER BY l.seq DESC LIMIT 1
            ) AS lazy
        INTO v_channel
        FROM pgqueue_channel AS c
        WHERE c.id = v_news.channel_id AND c.released_at IS NULL AND c.max_size IS NULL;
        IF FOUND THEN
            INSERT INTO pgqueue_arrival (queue, channel_id, floor_rank, floor_at, floor_id, lazy)
            VALUES (v_channel.queue, v_news.channel_id, v_news.rank, v_news.dequeue_at, v_news.id,
                coalesce(v_channel.lazy, false));
            -- The waiter was looked up above: the call of another function costs more than the look.
            IF v_channel.waited_for THEN
                PERFORM pgqueue_wake(v_channel.queue);
            END IF;
            IF v_channel.events THEN
                PERFORM pgqueue_publish('created', ARRAY[v_news.id]);
            END IF;
            RETURN NULL;
        END IF;
    END IF;

    SELECT max(a.dequeue_at) AS latest, EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.events) AS events,
        min(CASE
            WHEN pgqueue_is_valid_time(a.created_at) THEN pgqueue_validate(
                a.handler, a.payload, a.body, a.headers, a.priority, a.dequeue_at, NULL, a.max_attempts, a.backoff,
                a.backoff_factor, a.backoff_longest, NULL)
            ELSE 'created_at is outside of the years 2 to 9998'
        END) AS problem
    INTO v_news
    FROM arrived AS a;
    v_events := v_news.events;
    IF v_news.problem IS NOT NULL THEN
        RAISE EXCEPTION 'invalid message: %', v_news.problem USING ERRCODE = 'PGQ07';
    END IF;
    -- A plain INSERT cannot know that a message for later has a status of its own.
    IF v_news.latest > v_now AND EXISTS (SELECT FROM arrived AS a WHERE a.status = 1 AND a.dequeue_at > v_now) THEN
        UPDATE pgqueue_message AS m
        SET status = 3
        WHERE m.id = ANY (ARRAY(SELECT a.id FROM arrived AS a WHERE a.status = 1 AND a.dequeue_at > v_now));
    END IF;

    -- The floor is the least of each part, which is at or before the first message: to sort a million of them takes
    -- longer.
    FOR v_news IN
        SELECT n.channel_id, n.messages, n.rank, n.dequeue_at, n.id, c.queue, c.released_at, c.max_size, c.full_policy
        FROM (
            SELECT r.channel_id, count(*) AS messages, min(-r.priority) FILTER (WHERE r.ready) AS rank,
                min(r.dequeue_at) FILTER (WHERE r.ready) AS dequeue_at, min(r.id) FILTER (WHERE r.ready) AS id
            FROM (
                SELECT a.channel_id, a.priority, a.dequeue_at, a.id, a.status = 1 AND a.dequeue_at <= v_now AS ready
                FROM arrived AS a
            ) AS r
            GROUP BY r.channel_id
        ) AS n
        LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
        ORDER BY n.channel_id
    LOOP
        IF v_news.queue IS NULL THEN
            RAISE EXCEPTION 'channel % does not exist', v_news.channel_id
                USING ERRCODE = 'PGQ03', HINT = 'Create the channel first: pgqueue_channel_set(queue, channel).';
        ELSIF v_news.released_at IS NOT NULL THEN
            PERFORM pgqueue_raise(pgqueue_channel_refusal('PGQ05', v_news.channel_id));
        ELSIF v_news.max_size IS NOT NULL THEN
            v_room := pgqueue_reserve(v_news.channel_id, v_news.max_size, v_news.messages);
            IF v_room.refusal ->> 'outcome' = 'full' AND v_news.full_policy IN ('drop_oldest', 'replace') THEN
                v_full := v_full || v_news.channel_id;
            ELSE
                PERFORM pgqueue_raise(v_room.refusal);
            END IF;
        END IF;
        IF v_news.id IS NOT NULL THEN
            INSERT INTO pgqueue_arrival (queue, channel_id, floor_rank, floor_at, floor_id)
            VALUES (v_news.queue, v_news.channel_id, v_news.rank, v_news.dequeue_at, v_news.id);
            IF v_news.queue IS DISTINCT FROM v_queue THEN
                v_queue := v_news.queue;
                PERFORM pgqueue_wake(v_queue);
            END IF;
        END IF;
    END LOOP;
    -- Messages are locked after all counts, so that no caller waits for a count while it holds messages.
    IF v_full <> '{}' THEN
        PERFORM pgqueue_drop_surplus(n.channel_id, n.ids, n.messages)
        FROM (
            SELECT a.channel_id, coalesce(array_agg(a.id ORDER BY a.id) FILTER (WHERE a.status <> 2), '{}') AS ids,
                count(*) AS messages
            FROM arrived AS a
            WHERE a.channel_id = ANY (v_full)
            GROUP BY a.channel_id
        ) AS n;
    END IF;
    IF v_events THEN
        PERFORM pgqueue_publish('created', ARRAY(SELECT a.id FROM arrived AS a));
    END IF;
    RETURN NULL;
END;
$$;
