-- Appends arrivals for messages that became ready again (deferred, retried, promoted, given back).
-- The caller has set the messages to ready before, in the same transaction.
-- Locks: none (append only).
CREATE FUNCTION pgqueue_announce(p_ids bigint[])
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_arrival record;
BEGIN
    FOR v_arrival IN
        SELECT DISTINCT ON (m.channel_id)
            m.channel_id,
            c.queue,
            -m.priority AS rank,
            m.dequeue_at,
            m.id
        FROM pgqueue_message AS m
        JOIN pgqueue_channel AS c ON c.id = m.channel_id
        -- The cast keeps the index of ready messages out: while it is small, all of it would look as cheap as their
        -- keys.
        WHERE m.id = ANY (p_ids) AND m.status::integer = 1
        ORDER BY m.channel_id, -m.priority, m.dequeue_at, m.id
    LOOP
        INSERT INTO pgqueue_arrival (queue, channel_id, floor_rank, floor_at, floor_id)
        VALUES (v_arrival.queue, v_arrival.channel_id, v_arrival.rank, v_arrival.dequeue_at, v_arrival.id);
        PERFORM pgqueue_wake(v_arrival.queue);
    END LOOP;
END;
$$;
