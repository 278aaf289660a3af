-- Returns the live message of a channel that has this dedupe key, or NULL.
-- It is a function of its own, so that only calls with a dedupe key pay for pinning the plan. It is volatile: each pass
-- of the caller's loop must see what was committed since the last.
-- Locks: none.
CREATE FUNCTION pgqueue_find_duplicate(p_channel_id bigint, p_dedupe_key text)
RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    RETURN (SELECT m.id FROM pgqueue_message AS m WHERE m.channel_id = p_channel_id AND m.dedupe_key = p_dedupe_key);
END;
$$;
