-- Ends a batch without members, and enqueues the message that follows it, in this transaction.
-- If that is refused (a full channel), the refusal is kept with the batch and logged: the settlement goes on.
-- Locks: the batch, which the caller has locked; as pgqueue_enqueue.
CREATE FUNCTION pgqueue_batch_finish(p_id bigint)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_batch record;
    v_outer text := coalesce(current_setting('pgqueue.batch', true), '');
    v_next record;
BEGIN
    UPDATE pgqueue_batch AS b
    SET finished_at = clock_timestamp()
    WHERE b.id = p_id AND b.sealed_at IS NOT NULL AND b.finished_at IS NULL
        AND NOT EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id)
    RETURNING b.parent_id, EXISTS (SELECT FROM pgqueue_batch_lost AS l WHERE l.batch_id = p_id) AS has_lost,
        CASE WHEN EXISTS (SELECT FROM pgqueue_batch_lost AS l WHERE l.batch_id = p_id) THEN b.on_dead ELSE b.on_done END
            AS next
    INTO v_batch;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF v_batch.next IS NOT NULL THEN
        -- The outer batch waits for the message that follows, too.
        PERFORM set_config('pgqueue.batch', coalesce(v_batch.parent_id::text, ''), true);
        SELECT e.id, e.refusal INTO v_next
        FROM jsonb_populate_record(NULL::pgqueue_request, v_batch.next) AS r
        CROSS JOIN LATERAL pgqueue_enqueue(
            r.handler, r.payload, r.channel, r.queue, r.body,
            coalesce(r.headers, '{}') || jsonb_build_object('batch', p_id), coalesce(r.priority, 0), NULL, NULL,
            coalesce(r.max_attempts, 5), r.backoff, r.backoff_factor, r.backoff_longest, NULL,
            coalesce((v_batch.next -> 'create_channel')::boolean, false), '0',
            ARRAY(SELECT jsonb_array_elements_text(nullif(r.limits, 'null'))), r.cost, r.order_key) AS e;
        PERFORM set_config('pgqueue.batch', v_outer, true);
        UPDATE pgqueue_batch AS b SET callback_id = v_next.id, refusal = v_next.refusal WHERE b.id = p_id;
        IF v_next.refusal IS NOT NULL THEN
            RAISE WARNING 'pgqueue: the message after batch % was refused: %', p_id, v_next.refusal ->> 'message';
        END IF;
    END IF;
    IF v_batch.parent_id IS NOT NULL THEN
        PERFORM pgqueue_batch_settle(v_batch.parent_id, ARRAY[-p_id],
            CASE WHEN v_batch.has_lost THEN 'dead' ELSE 'completed' END);
    END IF;
END;
$$;
