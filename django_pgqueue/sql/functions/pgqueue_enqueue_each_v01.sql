-- Enqueues the messages of a bulk enqueue one by one, where each has an answer of its own, in an order that all callers
-- share.
-- Caller: pgqueue_enqueue_many.
-- The other parameters are those of pgqueue_enqueue_many.
-- Returns one row for each message, in the order of place, as pgqueue_enqueue does.
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
BEGIN
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
    RETURN QUERY
    SELECT u.id, u.outcome, u.created_at, u.dropped::bigint[], u.refusal
    FROM unnest(v_ids, v_outcomes, v_created_ats, v_dropped, v_refusals) WITH ORDINALITY
        AS u (id, outcome, created_at, dropped, refusal, place)
    ORDER BY u.place;
END;
$$;
