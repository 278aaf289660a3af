-- Returns the live leases of a queue with limits, with their channels.
-- pgqueue_repair.
-- p_held: the messages that the gate of the queue has listed: every lease of the queue is among them, and those that
-- have ended are left out here. So the cost is a look-up for each lease, whatever the backlog and the other queues are.
-- NULL: the list is not known, and all leases are read. That statement is a large one: it is started only when it is
-- needed, because starting it takes longer than the look-ups.
-- Locks: none.
CREATE FUNCTION pgqueue_queue_leases(p_queue text, p_held bigint[])
RETURNS TABLE (id bigint, channel_id bigint, lease_expires_at timestamptz)
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    -- As a call in the statement, it would keep pgqueue_line from becoming a part of it.
    v_now timestamptz := clock_timestamp();
BEGIN
    IF p_held IS NOT NULL THEN
        RETURN QUERY SELECT l.id, l.channel_id, l.lease_expires_at FROM pgqueue_live_leases(
            p_held || pgqueue_beside_gate(p_queue)) AS l;
    ELSE
        RETURN QUERY
        SELECT m.id, m.channel_id, m.lease_expires_at
        FROM pgqueue_line(p_queue, v_now) AS n
        JOIN pgqueue_message AS m ON m.lease_expires_at >= n.expiry_from AND m.status::integer = 2
        JOIN pgqueue_channel AS c ON c.id = m.channel_id AND c.queue = p_queue;
    END IF;
END;
$$;
