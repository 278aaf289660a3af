-- Returns the claims of a stream in the batches after p_from, up to p_upto: in the order of ids, a thousand messages a
-- row.
-- Locks: none.
CREATE FUNCTION pgqueue_stream_parts(p_name text, p_from bigint, p_upto bigint)
RETURNS TABLE (ids bigint[], tokens uuid[])
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    RETURN QUERY
    SELECT array_agg(n.message_id ORDER BY n.message_id), array_agg(n.token ORDER BY n.message_id)
    FROM (
        SELECT c.message_id, c.token, (row_number() OVER (ORDER BY c.message_id) - 1) / 1000 AS part
        FROM pgqueue_stream_claim AS c
        WHERE c.stream = p_name AND c.batch > p_from AND c.batch <= p_upto
    ) AS n
    GROUP BY n.part
    ORDER BY n.part;
END;
$$;
