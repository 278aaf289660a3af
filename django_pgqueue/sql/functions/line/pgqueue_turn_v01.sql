-- Returns how many messages the turn of a lane has, the missed ones included.
-- p_round: of the lane, as pgqueue_round returns it; p_weight: of its channel. The function is IMMUTABLE, so that it
-- becomes a part of the statement.
-- Locks: none.
CREATE FUNCTION pgqueue_turn(p_round bigint, p_weight integer)
RETURNS integer
LANGUAGE sql
IMMUTABLE
AS $$
SELECT least((p_round & 65535) * (1 + (p_round >> 16 & 15)) * p_weight, 2147483647)::integer;
$$;
