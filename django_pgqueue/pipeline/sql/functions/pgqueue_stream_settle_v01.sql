-- Settles the batches of a stream up to p_upto: their messages go to the archive as completed.
-- The caller has locked the stream.
-- Returns how many were settled, and how many could not be, because their leases expired and they were given to another
--   consumer.
-- Locks: as pgqueue_complete, in the order of ids, a thousand messages at a time.
CREATE FUNCTION pgqueue_stream_settle(p_name text, p_owner uuid, p_upto bigint, OUT settled integer, OUT lost integer)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- The lower bound keeps the scan off rows that were settled before.
    v_from bigint := (SELECT s.settled FROM pgqueue_stream AS s WHERE s.name = p_name AND s.owner = p_owner);
    v_part record;
    v_done integer;
BEGIN
    settled := 0;
    lost := 0;
    FOR v_part IN SELECT p.ids, p.tokens FROM pgqueue_stream_parts(p_name, v_from, p_upto) AS p LOOP
        SELECT count(*) INTO v_done FROM pgqueue_complete(v_part.ids, v_part.tokens, p_skip_lost => true);
        settled := settled + v_done;
        lost := lost + cardinality(v_part.ids) - v_done;
    END LOOP;
    IF p_upto > v_from THEN
        DELETE FROM pgqueue_stream_claim AS c WHERE c.stream = p_name AND c.batch > v_from AND c.batch <= p_upto;
        UPDATE pgqueue_stream AS s SET settled = p_upto WHERE s.name = p_name AND s.owner = p_owner;
    END IF;
END;
$$;
