-- Makes inserted messages members of the batch that the transaction has opened or entered.
-- Statement trigger, AFTER INSERT (transition table: arrived), only while pgqueue.batch is set. Its name sorts before
-- that of pgqueue_message_arrived, which may drop messages of a full channel: these must be members by then.
-- Locks, errors: as pgqueue_batch_join.
CREATE FUNCTION pgqueue_batch_joined()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_batch bigint := current_setting('pgqueue.batch')::bigint;
    v_ids bigint[];
    v_unmarked bigint[];
BEGIN
    SELECT array_agg(a.id), array_agg(a.id) FILTER (WHERE a.flow IS DISTINCT FROM v_batch) INTO v_ids, v_unmarked
    FROM arrived AS a;
    IF v_ids IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM pgqueue_batch_join(v_batch, v_ids);
    -- The ORM writes each column, so the default has not marked its messages.
    IF v_unmarked IS NOT NULL THEN
        UPDATE pgqueue_message AS m SET flow = v_batch WHERE m.id = ANY (v_unmarked);
    END IF;
    RETURN NULL;
END;
$$;
