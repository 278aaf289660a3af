-- Raises PGQ02 and names the messages that the caller may not touch any more: their leases expired and were given to
-- another worker, or they are settled.
-- Locks: none.
-- Errors: PGQ02, unless all are held.
CREATE FUNCTION pgqueue_lease_lost(p_asked bigint[], p_held bigint[])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_lost bigint[] := ARRAY(SELECT unnest(p_asked) EXCEPT SELECT unnest(p_held) ORDER BY 1);
BEGIN
    -- Fewer answers than questions may also mean that a message was named twice.
    IF v_lost = '{}' THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'the lease is lost of message %', array_to_string(v_lost, ', ')
        USING ERRCODE = 'PGQ02',
            DETAIL = array_to_string(v_lost, ','),
            HINT = 'It expired and was swept, or the message is settled. '
                'Nothing was changed; roll back what was done for it.';
END;
$$;
