-- Gives a stream up: claimed messages that are not settled go back to their channels, in the old places, and the stream
-- is forgotten.
-- An operator calls it when the query will not run any more, or has lost its checkpoint.
-- Returns the number of messages that went back.
-- Locks: the stream's row (lock order, before step 1), then as pgqueue_defer, in the order of ids.
-- Errors: PGQ03.
CREATE FUNCTION pgqueue_stream_release(p_name text)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_part record;
    v_count integer := 0;
BEGIN
    -- No query can claim for the stream from here on.
    UPDATE pgqueue_stream AS s SET owner = gen_random_uuid() WHERE s.name = p_name;
    IF NOT FOUND THEN
        PERFORM pgqueue_stream_lost(p_name);
    END IF;
    FOR v_part IN SELECT p.ids, p.tokens FROM pgqueue_stream_parts(p_name, -1, 9223372036854775807) AS p LOOP
        v_count := v_count + (
            SELECT count(*) FROM pgqueue_defer(v_part.ids, v_part.tokens, p_skip_lost => true) AS d
            WHERE d.outcome = 'deferred');
    END LOOP;
    DELETE FROM pgqueue_stream_claim AS c WHERE c.stream = p_name;
    DELETE FROM pgqueue_stream AS s WHERE s.name = p_name;
    RETURN v_count;
END;
$$;
