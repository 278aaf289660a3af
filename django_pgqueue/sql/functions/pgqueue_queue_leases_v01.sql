-- Returns the live leases of a queue with limits, with their channels.
-- Caller: pgqueue_explain_queue, pgqueue_queue_allowance, pgqueue_queue_is_open, pgqueue_queue_limits,
-- pgqueue_repair.
-- p_held: the messages that the gate of the queue has listed: every lease of the queue is among them, and those that
-- have ended are left out here. So the cost is a look-up for each lease, whatever the backlog and the other queues are.
-- NULL: the list is not known, and all leases are read. The function is STABLE, so that it becomes a part of the
-- statement.
-- Locks: none.
CREATE FUNCTION pgqueue_queue_leases(p_queue text, p_held bigint[])
RETURNS TABLE (id bigint, channel_id bigint, worker text, leased_at timestamptz, lease_expires_at timestamptz)
LANGUAGE sql
STABLE
AS $$
-- The cast keeps the index of leases out: while it is small, all of it would look as cheap as their keys.
SELECT m.id, m.channel_id, m.worker, m.leased_at, m.lease_expires_at
FROM pgqueue_message AS m
WHERE m.id = ANY (p_held) AND m.status::integer = 2
UNION ALL
SELECT m.id, m.channel_id, m.worker, m.leased_at, m.lease_expires_at
FROM pgqueue_line(p_queue, clock_timestamp()) AS n
JOIN pgqueue_message AS m ON m.lease_expires_at >= n.expiry_from AND m.status::integer = 2
JOIN pgqueue_channel AS c ON c.id = m.channel_id AND c.queue = p_queue
WHERE p_held IS NULL;
$$;
