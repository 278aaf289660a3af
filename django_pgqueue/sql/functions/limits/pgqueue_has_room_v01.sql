-- Returns whether a message of this cost may be leased within a shared limit.
-- A message that costs more than the limit ever has waits until all of it is free, and runs then.
-- The function is IMMUTABLE, so that it becomes a part of the expression.
-- Locks: none.
CREATE FUNCTION pgqueue_has_room(p_room pgqueue_room, p_cost integer)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
AS $$
SELECT p_room.held AND (p_room.places >= 1) IS NOT FALSE
    AND (p_room.cost >= least(p_cost, p_room.max_cost)) IS NOT FALSE
    AND (p_room.tokens >= least(p_cost, p_room.burst)) IS NOT FALSE;
$$;
