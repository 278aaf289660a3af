-- Enqueues the messages of a bulk enqueue one by one, where each has an answer of its own, in an order that all callers
-- share. It waits for locks no longer than an enqueue may, and no wait ends the caller's transaction.
-- The other parameters are those of pgqueue_enqueue_many.
-- Returns one row for each message, in the order of place, as pgqueue_enqueue does; busy, if another transaction holds
--   the channel or the dedupe key for longer than p_wait: the others are then withheld, or with p_partial tried again.
-- Locks: as pgqueue_enqueue_many.
-- Errors: those of a refusal, unless p_partial: a duplicate was settled since pgqueue_enqueue_look has counted it.
CREATE FUNCTION pgqueue_enqueue_each(
    p_requests pgqueue_request[], p_create_channel boolean, p_partial boolean, p_wait interval
)
RETURNS TABLE (id bigint, outcome text, created_at timestamptz, dropped_ids bigint[], refusal jsonb)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_row record;
    v_answer record;
    v_ids bigint[];
    v_outcomes text[];
    v_created_ats timestamptz[];
    v_dropped text[];
    v_refusals jsonb[];
    v_timeout text := current_setting('lock_timeout');
    v_half integer := cardinality(p_requests) / 2;
BEGIN
    -- One subtransaction for all: with one for each message, a large bulk would slow down the snapshots of others.
    PERFORM set_config('lock_timeout', pgqueue_enqueue_wait(p_wait, v_timeout, false), true),
        set_config('pgqueue.bounded', 'on', true);
    FOR v_row IN
        SELECT u.* FROM unnest(p_requests) AS u
        LEFT JOIN pgqueue_channel AS c ON c.queue = u.queue AND c.name = u.channel
        ORDER BY c.id, u.queue, u.channel, u.dedupe_key, u.place
    LOOP
        SELECT e.* INTO v_answer
        FROM pgqueue_enqueue(
            v_row.handler, v_row.payload, v_row.channel, v_row.queue, v_row.body, v_row.headers, v_row.priority,
            v_row.dequeue_at, v_row.delay, v_row.max_attempts, v_row.backoff, v_row.backoff_factor,
            v_row.backoff_longest, v_row.dedupe_key, p_create_channel, p_wait,
            ARRAY(SELECT jsonb_array_elements_text(nullif(v_row.limits, 'null'))), v_row.cost,
            v_row.order_key) AS e;
        IF p_partial IS NOT TRUE THEN
            PERFORM pgqueue_raise(v_answer.refusal);
        END IF;
        v_ids[v_row.place] := v_answer.id;
        v_outcomes[v_row.place] := v_answer.outcome;
        v_created_ats[v_row.place] := v_answer.created_at;
        v_dropped[v_row.place] := v_answer.dropped_ids::text;
        v_refusals[v_row.place] := v_answer.refusal;
    END LOOP;
    PERFORM set_config('lock_timeout', v_timeout, true), set_config('pgqueue.bounded', '', true);
    RETURN QUERY
    SELECT u.id, u.outcome, u.created_at, u.dropped::bigint[], u.refusal
    FROM unnest(v_ids, v_outcomes, v_created_ats, v_dropped, v_refusals) WITH ORDINALITY
        AS u (id, outcome, created_at, dropped, refusal, place)
    ORDER BY u.place;
EXCEPTION
    WHEN lock_not_available OR deadlock_detected THEN
        -- The statement has waited for as long as it may: what is tried again waits no more.
        IF p_partial AND v_half > 0 THEN
            RETURN QUERY
            SELECT e.* FROM pgqueue_enqueue_each(p_requests[:v_half], p_create_channel, true, '0') AS e;
            RETURN QUERY
            SELECT e.* FROM pgqueue_enqueue_each(p_requests[v_half + 1:], p_create_channel, true, '0') AS e;
            RETURN;
        END IF;
        RETURN QUERY
        SELECT NULL::bigint, coalesce(r.refusal ->> 'outcome', 'withheld'), NULL::timestamptz, NULL::bigint[], r.refusal
        FROM unnest(p_requests) AS u
        CROSS JOIN LATERAL (
            SELECT CASE WHEN u.place = v_row.place THEN pgqueue_refusal('PGQ06',
                format('channel "%s" of queue "%s" is busy: another transaction holds the channel or the dedupe key',
                    u.channel, u.queue),
                'Try again when that transaction has ended.') END AS refusal
        ) AS r
        ORDER BY u.place;
END;
$$;
