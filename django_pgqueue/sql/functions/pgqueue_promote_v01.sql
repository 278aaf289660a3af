-- Makes scheduled messages ready whose time has come, at most p_limit of them, the longest due first.
-- Caller: pgqueue_bring_back with the floor that it has read, pgqueue_tick. Returns how many.
-- Locks: messages, SKIP LOCKED.
CREATE FUNCTION pgqueue_promote(p_limit integer, p_from timestamptz DEFAULT '-infinity')
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    -- In a variable: a volatile function could not bound an index scan.
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.status = 3 AND m.dequeue_at >= p_from AND m.dequeue_at <= v_now
        ORDER BY m.dequeue_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED);
    IF v_ids = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE pgqueue_message AS m SET status = 1 WHERE m.id = ANY (v_ids);
    PERFORM pgqueue_announce(v_ids);
    RETURN cardinality(v_ids);
END;
$$;
