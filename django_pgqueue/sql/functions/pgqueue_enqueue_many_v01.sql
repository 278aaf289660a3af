-- Enqueues many messages in one statement. Arrays pair up; NULL for an array means the default for all.
-- Caller: anyone. Returns one row a message, in the order given: as pgqueue_enqueue. All or none.
-- Locks: as pgqueue_enqueue; channels with max_size in channel order, dedupe keys in order, so that callers cannot deadlock.
-- Errors: PGQ03, PGQ04, PGQ05, PGQ06, PGQ07.
CREATE FUNCTION pgqueue_enqueue_many(
    p_handlers text[],
    p_payloads jsonb[],
    p_channels text[] DEFAULT NULL,
    p_queues text[] DEFAULT NULL,
    p_bodies bytea[] DEFAULT NULL,
    p_headers jsonb[] DEFAULT NULL,
    p_priorities integer[] DEFAULT NULL,
    p_dequeue_ats timestamptz[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL,
    p_max_attempts integer[] DEFAULT NULL,
    p_backoffs interval[] DEFAULT NULL,
    p_backoff_factors double precision[] DEFAULT NULL,
    p_backoff_longests interval[] DEFAULT NULL,
    p_dedupe_keys text[] DEFAULT NULL,
    p_create_channel boolean DEFAULT false
)
RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_channel record;
    v_row record;
    v_answer record;
    v_dropping boolean := false;
    v_ids bigint[];
    v_outcomes text[];
BEGIN
    -- Every channel once: unknown ones are created or refused by name.
    FOR v_channel IN
        SELECT n.channel, n.queue, c.id, c.max_size IS NOT NULL AND c.full_policy = 'drop' AS dropping
        FROM (
            SELECT DISTINCT coalesce(u.channel, 'default') AS channel, coalesce(u.queue, 'default') AS queue
            FROM unnest(p_handlers, p_channels, p_queues) AS u (handler, channel, queue)
        ) AS n
        LEFT JOIN pgqueue_channel AS c ON c.queue = n.queue AND c.name = n.channel
        ORDER BY n.queue, n.channel
    LOOP
        v_dropping := v_dropping OR v_channel.dropping;
        IF v_channel.id IS NULL THEN
            PERFORM pgqueue_missing_channel(v_channel.channel, v_channel.queue, p_create_channel);
        END IF;
    END LOOP;

    -- One by one where each message has an answer of its own, in an order that all callers share.
    IF v_dropping OR p_dedupe_keys IS NOT NULL THEN
        FOR v_row IN
            SELECT u.*, c.id AS channel_id
            FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats, p_delays,
                p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests, p_dedupe_keys) WITH ORDINALITY
                AS u (handler, payload, channel, queue, body, headers, priority, dequeue_at, delay, max_attempts, backoff, backoff_factor,
                backoff_longest, dedupe_key, place)
            JOIN pgqueue_channel AS c ON c.queue = coalesce(u.queue, 'default') AND c.name = coalesce(u.channel, 'default')
            ORDER BY c.id, u.dedupe_key, u.place
        LOOP
            SELECT e.id, e.outcome INTO v_answer
            FROM pgqueue_enqueue(
                v_row.handler, v_row.payload, coalesce(v_row.channel, 'default'), coalesce(v_row.queue, 'default'), v_row.body,
                v_row.headers, coalesce(v_row.priority, 0), v_row.dequeue_at, v_row.delay, coalesce(v_row.max_attempts, 5),
                v_row.backoff, v_row.backoff_factor, v_row.backoff_longest, v_row.dedupe_key) AS e;
            v_ids[v_row.place] := v_answer.id;
            v_outcomes[v_row.place] := v_answer.outcome;
        END LOOP;
        RETURN QUERY SELECT u.id, u.outcome FROM unnest(v_ids, v_outcomes) WITH ORDINALITY AS u (id, outcome, place) ORDER BY u.place;
        RETURN;
    END IF;

    PERFORM pgqueue_validate(
        u.handler, coalesce(u.priority, 0), u.dequeue_at, u.delay, coalesce(u.max_attempts, 5), u.backoff, u.backoff_factor,
        u.backoff_longest, NULL)
    FROM unnest(p_handlers, p_priorities, p_dequeue_ats, p_delays, p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests)
        AS u (handler, priority, dequeue_at, delay, max_attempts, backoff, backoff_factor, backoff_longest)
    WHERE coalesce(u.handler, '') = '' OR length(u.handler) > 200 OR u.priority NOT BETWEEN -32767 AND 32767
        OR u.max_attempts < 1 OR u.dequeue_at IS NOT NULL OR u.backoff IS NOT NULL OR u.backoff_factor IS NOT NULL
        OR u.backoff_longest IS NOT NULL;
    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT u.*, c.id AS channel_id, coalesce(u.dequeue_at, v_now + coalesce(u.delay, '0')) AS due_at
        FROM (
            SELECT nextval('pgqueue_message_id_seq') AS id, n.*
            FROM unnest(p_handlers, p_payloads, p_channels, p_queues, p_bodies, p_headers, p_priorities, p_dequeue_ats, p_delays,
                p_max_attempts, p_backoffs, p_backoff_factors, p_backoff_longests) WITH ORDINALITY
                AS n (handler, payload, channel, queue, body, headers, priority, dequeue_at, delay, max_attempts, backoff, backoff_factor,
                backoff_longest, place)
        ) AS u
        LEFT JOIN pgqueue_channel AS c ON c.queue = coalesce(u.queue, 'default') AND c.name = coalesce(u.channel, 'default')
    ),
    enqueued AS (
        INSERT INTO pgqueue_message (
            id, channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff, backoff_factor,
            backoff_longest)
        SELECT i.id, i.channel_id, i.handler, coalesce(i.payload, 'null'), i.body, i.headers, coalesce(i.priority, 0), i.due_at,
            CASE WHEN i.due_at > v_now THEN 3 ELSE 1 END, coalesce(i.max_attempts, 5), i.backoff, i.backoff_factor,
            i.backoff_longest
        FROM input AS i
        ORDER BY i.place
    )
    SELECT i.id, 'created'::text FROM input AS i ORDER BY i.place;
END;
$$;
