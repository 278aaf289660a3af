-- Ends a batch without members, and enqueues the message that follows it, in this transaction. The batch forgets both
-- messages: their payloads are those of the message that follows.
-- If that is refused because its channel is full or busy, the batch stays as it is, and the next sweep tries again. Any
-- other refusal is kept with the batch and logged: the settlement goes on.
-- Returns 1 if it has ended the batch, else 0.
-- Locks: the batch, which the caller has locked; as pgqueue_enqueue, without waiting; as pgqueue_batch_look for the
-- outer batch; of a message that waits, as pgqueue_after_finish.
CREATE FUNCTION pgqueue_batch_finish(p_id bigint)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_batch record;
    v_outer text := coalesce(current_setting('pgqueue.batch', true), '');
    v_next_id bigint;
    v_refusal jsonb;
BEGIN
    IF p_id < 0 THEN
        RETURN pgqueue_after_finish(p_id);
    END IF;
    SELECT b.parent_id, l.has_lost, CASE WHEN l.has_lost THEN b.on_dead ELSE b.on_done END AS next INTO v_batch
    FROM pgqueue_batch AS b
    CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM pgqueue_batch_lost AS l WHERE l.batch_id = p_id) AS has_lost
    ) AS l
    WHERE b.id = p_id AND b.sealed_at IS NOT NULL AND b.finished_at IS NULL
        AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id);
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF v_batch.next IS NOT NULL THEN
        -- The outer batch waits for the message that follows, too.
        PERFORM set_config('pgqueue.batch', coalesce(v_batch.parent_id::text, ''), true);
        SELECT e.id, e.refusal INTO v_next_id, v_refusal
        FROM jsonb_populate_record(NULL::pgqueue_request, v_batch.next) AS r
        CROSS JOIN LATERAL pgqueue_enqueue(
            r.handler, r.payload, r.channel, r.queue, r.body,
            coalesce(r.headers, '{}') || jsonb_build_object('batch', p_id), coalesce(r.priority, 0), NULL, NULL,
            coalesce(r.max_attempts, 5), r.backoff, r.backoff_factor, r.backoff_longest, NULL,
            coalesce((v_batch.next -> 'create_channel')::boolean, false), '0',
            ARRAY(SELECT jsonb_array_elements_text(nullif(r.limits, 'null'))), r.cost, r.order_key) AS e;
        PERFORM set_config('pgqueue.batch', v_outer, true);
        IF v_refusal ->> 'sqlstate' IN ('PGQ04', 'PGQ06') THEN
            UPDATE pgqueue_batch AS b SET refusal = v_refusal WHERE b.id = p_id;
            INSERT INTO pgqueue_batch_unsure (batch_id) VALUES (p_id);
            RETURN 0;
        END IF;
        IF v_refusal IS NOT NULL THEN
            RAISE WARNING 'pgqueue: the message after batch % was refused: %', p_id, v_refusal ->> 'message';
        END IF;
    END IF;
    UPDATE pgqueue_batch AS b
    SET finished_at = clock_timestamp(), callback_id = v_next_id, refusal = v_refusal,
        on_done = CASE WHEN v_refusal IS NOT NULL THEN b.on_done END,
        on_dead = CASE WHEN v_refusal IS NOT NULL THEN b.on_dead END
    WHERE b.id = p_id;
    IF v_batch.parent_id IS NOT NULL THEN
        PERFORM pgqueue_batch_settle(v_batch.parent_id, ARRAY[-p_id],
            CASE WHEN v_batch.has_lost THEN 'dead' ELSE 'completed' END);
    END IF;
    RETURN 1;
END;
$$;
