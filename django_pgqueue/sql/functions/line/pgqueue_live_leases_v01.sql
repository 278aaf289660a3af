-- Returns those of the messages at the gate of a queue that are leased still, with their channels.
-- The function is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_live_leases(p_held bigint[])
RETURNS TABLE (id bigint, channel_id bigint, lease_expires_at timestamptz)
LANGUAGE sql
STABLE
AS $$
-- The cast keeps the index of leases out: while it is small, all of it would look as cheap as their keys.
SELECT m.id, m.channel_id, m.lease_expires_at FROM pgqueue_message AS m
WHERE m.id = ANY (p_held) AND m.status::integer = 2;
$$;
