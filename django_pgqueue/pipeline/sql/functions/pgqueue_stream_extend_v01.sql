-- Extends the leases of all messages that a stream has claimed and not settled: they expire p_lease from now. Claims
-- whose lease is lost are forgotten: their messages were given to another consumer.
-- The Spark data source calls it while a query runs, and before a batch is run again.
-- Returns how many are held and how many were lost.
-- Locks: as pgqueue_heartbeat, in the order of ids, a thousand messages at a time.
-- Errors: PGQ02 another query has the stream, PGQ07.
CREATE FUNCTION pgqueue_stream_extend(
    p_name text, p_owner uuid, p_lease interval DEFAULT '10 minutes', OUT held integer, OUT lost integer
)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_from bigint := (SELECT s.settled FROM pgqueue_stream AS s WHERE s.name = p_name AND s.owner = p_owner);
    v_part record;
    v_kept bigint[];
BEGIN
    IF v_from IS NULL THEN
        PERFORM pgqueue_stream_lost(p_name);
    END IF;
    held := 0;
    lost := 0;
    FOR v_part IN SELECT p.ids, p.tokens FROM pgqueue_stream_parts(p_name, v_from, 9223372036854775807) AS p LOOP
        v_kept := ARRAY(SELECT h.id FROM pgqueue_heartbeat(v_part.ids, v_part.tokens, p_lease,
            p_skip_lost => true) AS h);
        held := held + cardinality(v_kept);
        IF cardinality(v_kept) < cardinality(v_part.ids) THEN
            DELETE FROM pgqueue_stream_claim AS c
            WHERE c.stream = p_name AND c.batch > v_from AND c.message_id = ANY (v_part.ids)
                AND c.message_id <> ALL (v_kept);
            lost := lost + cardinality(v_part.ids) - cardinality(v_kept);
        END IF;
    END LOOP;
END;
$$;
