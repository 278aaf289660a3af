-- Decides whether it is the turn of one message among those of its order key: the short way of pgqueue_take_keyed.
-- p_id: locked by the caller, of a channel that is not ordered; p_channel_id, p_key: its channel and its order key.
-- Returns the id; NULL when the message was set aside, or another transaction has locked the key.
-- Locks: as pgqueue_take_keyed.
CREATE FUNCTION pgqueue_take_key(p_id bigint, p_channel_id bigint, p_key text)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_first_id bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_key, p_channel_id)) THEN
        RETURN NULL;
    END IF;
    -- A statement of its own, because its snapshot must be younger than the lock.
    SELECT f.id INTO v_first_id FROM pgqueue_first_of_key(p_channel_id, p_key) AS f;
    RETURN CASE WHEN v_first_id = p_id THEN p_id ELSE (pgqueue_take_keyed(ARRAY[p_id]))[1] END;
END;
$$;
