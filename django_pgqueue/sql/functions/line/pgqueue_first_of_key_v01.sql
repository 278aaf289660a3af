-- Returns the message of an order key whose turn it is: the one that was delivered before, and is not settled yet; then
-- the first one, by the order of enqueue.
-- A redriven message has the place of its dead letter. Scheduled messages count, whatever they wait for. The function
-- is STABLE, so that it becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_first_of_key(p_channel_id bigint, p_order_key text)
RETURNS TABLE (id bigint, status smallint, waits_for bigint)
LANGUAGE sql
STABLE
AS $$
SELECT m.id, m.status, m.waits_for FROM pgqueue_message AS m
WHERE m.channel_id = p_channel_id AND m.order_key = p_order_key
ORDER BY coalesce(m.leased_at, m.last_leased_at), coalesce(m.order_place, m.id) LIMIT 1;
$$;
