-- Gives dead letters a new life: each becomes a new message that names the old one, with all its attempts; the dead
-- letter keeps the new id.
-- p_channel: another channel of the same queue; p_payload replaces the payload, p_payloads (paired with p_ids) those of
-- single letters, NULL keeps one; p_times (paired, too): when each is due, NULL at once. p_wait: as in pgqueue_enqueue.
-- A dead letter with an order key goes back to its place among the messages of the key.
-- A dead letter of an ordered channel, which goes back to it at once, is put back at its place: before all that wait
-- there and were enqueued after it; a pause because of it ends.
-- A dead letter that was redriven is left out, and so is one that another session redrives right now. One statement
-- enqueues all, so that they arrive together.
-- Returns old and new ids, and redriven; or one row with the refusal: PGQ03, PGQ04, PGQ05, PGQ06 of a channel, PGQ07
--   invalid argument.
-- Locks: the dead letters, SKIP LOCKED; then as enqueue; then the channels, SKIP LOCKED.
CREATE FUNCTION pgqueue_redrive(
    p_ids bigint[],
    p_channel text DEFAULT NULL,
    p_payload jsonb DEFAULT NULL,
    p_payloads jsonb[] DEFAULT NULL,
    p_times timestamptz[] DEFAULT NULL,
    p_wait interval DEFAULT NULL
)
RETURNS TABLE (old_id bigint, new_id bigint, outcome text, refusal jsonb)
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
    v_letters record;
    v_channel record;
    v_refusal jsonb;
    v_problem text := pgqueue_unpaired('p_ids', cardinality(p_ids), ARRAY['p_payloads', 'p_times'],
        ARRAY[cardinality(p_payloads), cardinality(p_times)]);
BEGIN
    IF v_problem IS NOT NULL THEN
        RETURN QUERY SELECT NULL::bigint, NULL::bigint, 'invalid',
            pgqueue_refusal('PGQ07', 'invalid redrive: ' || v_problem);
        RETURN;
    END IF;
    -- The order is that of their service: by channel, the oldest first.
    SELECT array_agg(n.id) AS ids, array_agg(n.channel_id) AS channel_ids, array_agg(n.payload) AS payloads,
        array_agg(n.due_at) AS times, min(n.problem) AS problem
    INTO v_letters
    FROM (
        SELECT d.id, c.id AS channel_id, coalesce(u.payload, p_payload) AS payload,
            -- In an ordered channel the time is its place, too. The new id is larger, so the first redrive goes a
            -- microsecond before the messages that were enqueued by the same call.
            CASE
                WHEN c.ordered AND c.name = d.channel AND (u.due_at <= v_now) IS NOT FALSE THEN least(v_now,
                    d.dequeue_at - CASE WHEN d.redriven_from IS NULL THEN interval '1 microsecond' ELSE '0' END)
                ELSE greatest(v_now, u.due_at)
            END AS due_at,
            coalesce(pgqueue_validate(d.handler, coalesce(u.payload, p_payload, d.payload), d.body, d.headers,
                d.priority, greatest(v_now, u.due_at), NULL, d.max_attempts, d.backoff, d.backoff_factor,
                d.backoff_longest, NULL), CASE WHEN d.cost > 1 THEN pgqueue_cost_problem(d.cost, c.id, d.handler,
                d.limits) END) AS problem
        FROM (
            SELECT DISTINCT ON (i.id) i.id, i.payload, i.due_at
            FROM unnest(p_ids, p_payloads, p_times) WITH ORDINALITY AS i (id, payload, due_at, place)
            ORDER BY i.id, i.place
        ) AS u
        CROSS JOIN LATERAL (
            SELECT l.* FROM pgqueue_dead_letter AS l
            WHERE l.id = u.id AND l.redriven_at IS NULL
            FOR UPDATE SKIP LOCKED
        ) AS d
        LEFT JOIN pgqueue_channel AS c ON c.queue = d.queue AND c.name = coalesce(p_channel, d.channel)
        ORDER BY d.queue, d.channel, d.id
    ) AS n;
    IF v_letters.ids IS NULL THEN
        RETURN;
    END IF;
    IF v_letters.problem IS NOT NULL THEN
        v_refusal := pgqueue_refusal('PGQ07', 'invalid redrive: ' || v_letters.problem);
    ELSE
        -- A redrive drops nothing: a full channel refuses. In the order of channels (lock order, step 1).
        FOR v_channel IN
            SELECT n.queue, n.channel, n.messages
            FROM (
                SELECT d.queue, coalesce(p_channel, d.channel) AS channel, count(*) AS messages
                FROM pgqueue_dead_letter AS d
                WHERE d.id = ANY (v_letters.ids)
                GROUP BY 1, 2
            ) AS n
            LEFT JOIN pgqueue_channel AS c ON c.queue = n.queue AND c.name = n.channel
            ORDER BY c.id NULLS FIRST
        LOOP
            v_refusal := pgqueue_enqueue_check(v_channel.queue, v_channel.channel, v_channel.messages, false, false,
                p_wait);
            EXIT WHEN v_refusal IS NOT NULL;
        END LOOP;
    END IF;
    IF v_refusal IS NOT NULL THEN
        RETURN QUERY SELECT NULL::bigint, NULL::bigint, v_refusal ->> 'outcome', v_refusal;
        RETURN;
    END IF;
    -- Resumes the ordered channels that are paused because of these dead letters. One that an operator has paused
    -- since, with another reason, stays paused, and so does one that another transaction edits right now.
    UPDATE pgqueue_channel AS c
    SET paused_at = NULL, pause_reason = '', paused_until = NULL
    WHERE c.id = ANY (ARRAY(
        SELECT n.id
        FROM pgqueue_channel AS n
        WHERE n.id = ANY (v_letters.channel_ids) AND n.paused_at IS NOT NULL AND n.pause_reason = ANY (ARRAY(
            SELECT pgqueue_dead_pause_reason(d.id, d.reason) FROM pgqueue_dead_letter AS d
            WHERE d.id = ANY (v_letters.ids)))
        FOR NO KEY UPDATE SKIP LOCKED));
    RETURN QUERY
    -- Joins the dead letters with their new ids, channels, payloads and times.
    WITH letter AS MATERIALIZED (
        SELECT u.place, nextval('pgqueue_message_id_seq') AS new_id, u.channel_id,
            coalesce(u.payload, d.payload) AS new_payload, u.due_at, d.*,
            CASE WHEN d.limits IS NOT NULL THEN pgqueue_waits_for(u.channel_id, d.limits) END AS waits_for
        FROM unnest(v_letters.ids, v_letters.channel_ids, v_letters.payloads, v_letters.times) WITH ORDINALITY
            AS u (letter_id, channel_id, payload, due_at, place)
        -- The OFFSET looks up each letter by its key, independent of statistics.
        CROSS JOIN LATERAL (SELECT l.* FROM pgqueue_dead_letter AS l WHERE l.id = u.letter_id OFFSET 0) AS d
    ),
    -- Enqueues the new messages without the dedupe key, which stays behind: the work may have been asked for again
    -- since.
    enqueued AS (
        INSERT INTO pgqueue_message (
            id, channel_id, handler, payload, body, headers, priority, max_attempts, backoff, backoff_factor,
            backoff_longest, state, redriven_from, dequeue_at, status, limits, cost, waits_for, order_key, order_place)
        SELECT n.new_id, n.channel_id, n.handler, n.new_payload, n.body, n.headers, n.priority, n.max_attempts,
            n.backoff, n.backoff_factor, n.backoff_longest, n.state, n.id, n.due_at,
            CASE WHEN n.due_at > v_now OR n.waits_for IS NOT NULL THEN 3 ELSE 1 END, n.limits, n.cost,
            CASE WHEN n.due_at <= v_now THEN n.waits_for END, n.order_key,
            CASE WHEN n.order_key IS NOT NULL THEN coalesce(n.order_place, n.id) END
        FROM letter AS n ORDER BY n.place
    ),
    -- Writes the new ids into the dead letters.
    marked AS (
        UPDATE pgqueue_dead_letter AS d SET redriven_at = clock_timestamp(), redriven_to = n.new_id
        FROM letter AS n WHERE d.id = n.id
    )
    SELECT n.id, n.new_id, 'redriven'::text, NULL::jsonb FROM letter AS n ORDER BY n.place;
END;
$$;
