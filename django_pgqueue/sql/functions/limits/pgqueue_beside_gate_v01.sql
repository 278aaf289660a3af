-- Returns the messages that dequeues have listed beside the gate of a queue (pgqueue_enter_beside), also those whose
-- lease has ended.
-- Locks: none.
CREATE FUNCTION pgqueue_beside_gate(p_queue text)
RETURNS bigint[]
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT unnest(s.held) FROM generate_series(0, 7) AS n (side)
        CROSS JOIN LATERAL (
            -- The newest entry of the index is the live one.
            SELECT o.held FROM pgqueue_gate_side AS o
            WHERE o.queue = p_queue AND o.side = n.side ORDER BY o.seq DESC LIMIT 1
        ) AS s);
END;
$$;
