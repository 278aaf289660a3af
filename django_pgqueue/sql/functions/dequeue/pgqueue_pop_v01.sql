-- Dequeues and completes in one call: at most once. A message whose consumer crashes afterwards is not delivered again.
-- Runs in a transaction of its own or in a business transaction (after a rollback, the messages are there again).
-- p_archive: as in pgqueue_complete.
-- Returns the messages in the order of service.
-- Locks: as pgqueue_dequeue.
-- Errors: PGQ07.
CREATE FUNCTION pgqueue_pop(
    p_queue text DEFAULT 'default',
    p_limit integer DEFAULT 1,
    p_worker text DEFAULT NULL,
    p_archive text DEFAULT NULL
)
RETURNS SETOF pgqueue_delivery
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_leased pgqueue_delivery;
    v_ids bigint[] := '{}';
BEGIN
    IF p_archive NOT IN ('full', 'outcome', 'none') THEN
        PERFORM pgqueue_raise(pgqueue_refusal('PGQ07',
            pgqueue_settings_problem('queue', jsonb_build_object('archive', p_archive))));
    END IF;
    FOR v_leased IN
        SELECT d.* FROM pgqueue_dequeue(p_queue, p_limit, interval '1 minute', p_worker) AS d
    LOOP
        v_ids := v_ids || v_leased.id;
        RETURN NEXT v_leased;
    END LOOP;
    PERFORM pgqueue_archive(v_ids, 'popped', p_archive);
END;
$$;
