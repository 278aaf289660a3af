-- Returns the reason of the pause of an ordered channel at whose dead letter it stopped. A pause with this very reason
-- ends when the dead letter is redriven.
-- Locks: none.
CREATE FUNCTION pgqueue_dead_pause_reason(p_id bigint, p_reason text)
RETURNS text
LANGUAGE sql
IMMUTABLE
AS $$
SELECT format('message %s became a dead letter (%s)', p_id, p_reason);
$$;
