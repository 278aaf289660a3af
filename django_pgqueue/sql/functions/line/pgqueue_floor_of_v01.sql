-- Returns the floor that holds for a queue: its own one if it has any, else that of all queues ('').
-- The function is STABLE, so that it becomes a part of the statement. An OR, because an index condition on the queue
-- would not keep the order.
-- Locks: none.
CREATE FUNCTION pgqueue_floor_of(p_queue text)
RETURNS SETOF pgqueue_floor
LANGUAGE sql
STABLE
AS $$
SELECT f.* FROM pgqueue_floor AS f WHERE f.queue = '' OR f.queue = p_queue ORDER BY f.id DESC, f.queue DESC LIMIT 1;
$$;
