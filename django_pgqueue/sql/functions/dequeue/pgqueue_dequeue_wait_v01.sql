-- Dequeues; if there is no message, looks again until one arrives, for up to p_wait.
-- A client in any language runs it by CALL in autocommit. The procedure has the rights and the search_path of its
-- caller: a procedure with its own rights or search_path may not commit, and one transaction for the whole wait would
-- keep an old snapshot, so that VACUUM could clean up nothing.
-- Returns messages: the rows of pgqueue_dequeue in the order of service, as an array of objects; empty: no message
--   arrived.
-- Locks: as pgqueue_dequeue. While it sleeps it has no lock and no transaction id, and a snapshot not older than its
--   last pause.
-- Errors: PGQ07 invalid argument, or not in autocommit.
CREATE PROCEDURE pgqueue_dequeue_wait(
    p_queue text DEFAULT 'default',
    p_limit integer DEFAULT 1,
    p_lease interval DEFAULT '15 seconds',
    p_worker text DEFAULT NULL,
    p_wait interval DEFAULT '10 seconds',
    INOUT messages jsonb DEFAULT NULL
)
LANGUAGE plpgsql
AS $$
DECLARE
    -- The clock has its full name here: in tests another one may stand still, and then the wait would not end.
    v_deadline timestamptz := pg_catalog.clock_timestamp() + least(p_wait, '300 seconds');
    v_left double precision;
    v_pause double precision := 0.01;
    v_never text;
BEGIN
    IF p_wait IS NULL OR p_wait NOT BETWEEN '0' AND '300 seconds' THEN
        RAISE EXCEPTION 'dequeue_wait waits for 0 to 300 seconds (%)', coalesce(p_wait::text, 'NULL')
            USING ERRCODE = 'PGQ07', HINT = 'To wait longer, call it again, or run a worker.';
    END IF;
    BEGIN
        -- No COMMIT succeeds in such a DO. The message, in the language of lc_messages, is that of a transaction block.
        EXECUTE 'DO ''BEGIN COMMIT; END''';
    EXCEPTION WHEN invalid_transaction_termination THEN
        v_never := SQLERRM;
    END;
    BEGIN
        -- It never succeeds here, but the message says whether it could elsewhere.
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        IF SQLERRM = v_never THEN
            RAISE EXCEPTION 'dequeue_wait cannot run in a transaction block or a function: it commits'
                USING ERRCODE = 'PGQ07',
                HINT = 'CALL it as a statement of its own, in autocommit. In a transaction use pgqueue_dequeue.';
        END IF;
    END;
    LOOP
        -- The body is in hexadecimal, whatever bytea_output is; chr(92) is a backslash, whatever the literals allow.
        SELECT coalesce(jsonb_agg(to_jsonb(d) - 'ordinality'
            || jsonb_build_object('body', chr(92) || 'x' || encode(d.body, 'hex')) ORDER BY d.ordinality), '[]')
        INTO messages
        FROM pgqueue_dequeue(p_queue, p_limit, p_lease, p_worker) WITH ORDINALITY AS d;
        COMMIT;
        v_left := extract(epoch FROM v_deadline - pg_catalog.clock_timestamp());
        EXIT WHEN messages <> '[]' OR v_left <= 0;
        PERFORM pg_sleep(least(v_pause, v_left));
        v_pause := least(v_pause * 2, 0.1);
    END LOOP;
END;
$$;
